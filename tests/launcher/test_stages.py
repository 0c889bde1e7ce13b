"""The transitions of the state machine."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.stages import HostProgress, Inputs, Stage, machine_of, member_of


class RecordedActions:
    """A fake set of actions, which records each call and performs nothing."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.done.append((name, *args))


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "choose": ("Bo",),
    "refused": ("no",),
    "check": (False,),
    "whole": (True,),
    "lacking": (7, ""),
    "failed": ("it broke",),
    "ended": ("",),
    "expelled": ("gone",),
}
WORDS = sorted(name for name in vars(Inputs) if not name.startswith("_"))


class StageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.noted = RecordedActions()
        self.host = HostProgress(self.noted)
        self.inputs = machine_of(self.host)

    def go(self, *words: str) -> None:
        for word in words:
            getattr(self.inputs, word)(*ARGUMENTS.get(word, ()))

    def test_invite_leads_through_check_and_download_to_playing(self) -> None:
        self.go("agree", "choose", "known", "check", "lacking", "fetch", "whole", "play", "started")
        self.assertIs(self.host.stage, Stage.PLAYING)
        done = [name for name, *_ in self.noted.done]
        self.assertEqual(done, ["register", "check", "fetch", "start_game"])

    def test_no_action_starts_before_the_player_agrees(self) -> None:
        self.go("choose", "check", "fetch", "play", "bring")
        self.assertIs(self.host.stage, Stage.INVITED)
        self.assertEqual(self.noted.done, [])

    def test_a_refused_name_is_asked_for_again_with_the_reason(self) -> None:
        self.go("agree", "choose", "refused")
        self.assertIs(self.host.stage, Stage.NAMING)
        self.assertEqual(self.host.trouble, "no")
        self.go("choose")
        self.assertEqual(self.host.trouble, "")

    def test_a_second_click_does_nothing(self) -> None:
        self.go("agree", "choose", "known", "check", "whole", "play", "play", "started", "play")
        self.assertEqual(self.noted.done.count(("start_game",)), 1)

    def test_a_game_that_ends_can_be_played_again(self) -> None:
        self.go("agree", "choose", "known", "check", "whole", "play", "started", "ended")
        self.assertIs(self.host.stage, Stage.READY)

    def test_known_member_begins_unchecked_without_actions(self) -> None:
        member_of(self.host)
        self.assertIs(self.host.stage, Stage.UNCHECKED)
        self.assertEqual(self.noted.done, [])

    @given(st.lists(st.sampled_from(WORDS), max_size=30))
    def test_inputs_in_any_order_are_accepted(self, words: list[str]) -> None:
        self.setUp()
        self.go(*words)
        starts = self.noted.done.count(("start_game",))
        self.assertLessEqual(starts, words.count("play"))
