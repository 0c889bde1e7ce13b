"""The recorded history: violations that it must detect, and behaviour that it must accept."""

from twisted.trial.unittest import SynchronousTestCase

from simulation.answers import PROMPT_S, SETTLES_S
from simulation.history import PATIENCE_S, REPLAY_S, History
from simulation.outcomes import ACKED, REFUSED, UNKNOWN
from simulation.owed import INVITE_S, Invite
from simulation.rare import traces_s
from simulation.talk import ECHO_S, LATE_S, THERE_S

LOST_LINE = "ada never received 'lost' from bo"


class HistoryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.history = History()

    def rules(self) -> list[str]:
        return [violation.rule for violation in self.history.wrong.listed]

    def test_an_acknowledged_save_must_be_there(self) -> None:
        saves = self.history.saves
        saves.sent("c", 1, "a")
        saves.answered("c", 1, "a")
        saves.sent("c", 2, "b")  # without a reply, the save may be stored or not
        saves.compare_save("c", 1, "a", 1)
        saves.compare_save("c", 2, "b", 1)
        self.assertEqual(self.rules(), [])
        saves.compare_save("c", 0, "", 1)
        saves.compare_save("c", 2, "mixture", 1)
        self.assertEqual(self.rules(), ["acknowledged means present", "whole or not at all"])

    def test_a_transaction_counts_once_and_whole(self) -> None:
        stacks = self.history.stacks
        for name, state in (("kept", ACKED), ("refused", REFUSED), ("unsure", UNKNOWN)):
            stacks.sent("c", name, 10, f"M-{name}")
            stacks.answered("c", name, state)
        stacks.check_inventory("c", 10, {"M-kept": 1})
        stacks.check_inventory("c", 20, {"M-kept": 1, "M-unsure": 1})
        self.assertEqual(self.rules(), [])
        stacks.check_inventory("c", 20, {"M-kept": 2})
        stacks.check_inventory("c", 10, {"M-kept": 1, "M-unsure": 1})
        stacks.check_inventory("c", 0, {})
        self.assertEqual(
            self.rules(),
            [
                "a transaction once",
                "totals are conserved",
                "totals are conserved",
                "acknowledged means present",
            ],
        )

    def test_a_grant_counts_once(self) -> None:
        grants = self.history.grants
        grants.answered(grants.sent("a", 10, 0.0), ACKED, 1.0)
        grants.answered(grants.sent("a", 7, 1.0), REFUSED, 2.0)
        grants.check_progress("a", 10)
        self.assertEqual(self.rules(), [])
        for wrong in (0, 5, 17, 20):
            grants.check_progress("a", wrong)
        self.assertEqual(self.rules(), ["a grant once"] * 4)

    def test_an_unanswered_grant_counts_at_most_twice(self) -> None:
        grants = self.history.grants
        grants.answered(grants.sent("a", 5, 0.0), UNKNOWN, 1.0)
        for right in (0, 5, 10):
            grants.check_progress("a", right)
        grants.answered(grants.sent("a", 3, 1.0 + PATIENCE_S), ACKED, 2.0 + PATIENCE_S)
        grants.check_progress("a", 13)
        self.assertEqual(self.rules(), [])
        grants.check_progress("a", 16)
        self.assertEqual(self.rules(), ["a grant once"])

    def test_two_grants_side_by_side_may_count_twice_each(self) -> None:
        """The second of two equal grants is a repeat only if no other grant came between them."""
        grants = self.history.grants
        first, second = grants.sent("a", 10, 0.0), grants.sent("a", 1, 3.0)
        third = grants.sent("b", 100, 3.0)
        for grant in (first, second, third):
            grants.answered(grant, ACKED, 4.0)
        for right in (11, 12, 21, 22):
            grants.check_progress("a", right)
        grants.check_progress("b", 100)
        self.assertEqual(self.rules(), [])
        grants.check_progress("a", 23)
        grants.check_progress("b", 200)
        self.assertEqual(self.rules(), ["a grant once"] * 2)

    def test_a_slow_grant_may_count_twice(self) -> None:
        grants = self.history.grants
        grants.answered(grants.sent("a", 10, 0.0), ACKED, REPLAY_S)
        grants.answered(grants.sent("a", 10, 9.0), ACKED, 9.0)
        grants.check_progress("a", 30)
        self.assertEqual(self.rules(), [])
        grants.check_progress("a", 40)
        self.assertEqual(self.rules(), ["a grant once"])

    def test_chat_has_one_order_and_loses_nothing(self) -> None:
        talk = self.history.chat
        for who in ("ada", "bo"):
            talk.entered("room", who, 0.0)
        for line in ("one", "two"):
            talk.sent_times[line] = 5.0
            for who in ("ada", "bo"):
                talk.check_received("room", who, line, own=who == "ada", now=5.1)
        talk.settle(100.0)
        self.assertEqual(self.rules(), [])
        talk.sent_times["three"] = talk.sent_times["four"] = 110.0
        for who, lines in (("ada", ("three", "four")), ("bo", ("four", "three", "three"))):
            for line in lines:
                talk.check_received("room", who, line, own=who == "ada", now=110.1)
        talk.sent_times["five"] = 120.0
        talk.check_received("room", "ada", "five", own=True, now=120.1)
        talk.settle(200.0)
        self.assertEqual(self.rules(), ["each line once", "chat in one order", "all hear a line"])

    def test_lines_need_not_reach_players_that_left(self) -> None:
        talk = self.history.chat
        talk.entered("room", "ada", 0.0)
        talk.entered("room", "bo", 0.0)
        talk.left("room", "bo", 12.0)
        talk.sent_times["one"] = 5.0
        talk.check_received("room", "ada", "one", own=True, now=5.1)
        talk.settle(100.0)
        self.assertEqual(self.rules(), [])

    def test_a_late_line_must_reach_those_present_then(self) -> None:
        talk = self.history.chat
        for who in ("ada", "bo", "cleo", "dag"):
            talk.entered("room", who, 0.0)
        talk.sent_times["one"] = 5.0  # while the packets of ada's machine were lost
        talk.left("room", "bo", 30.0)
        talk.check_received("room", "cleo", "one", own=False, now=35.0)
        talk.check_received("room", "ada", "one", own=True, now=36.0)
        talk.left("room", "dag", 55.0)  # 20 s after somebody heard it
        talk.settle(100.0)
        wrong = [violation.what for violation in self.history.wrong.listed]
        self.assertEqual(wrong, ["dag in room never received 'one'"])

    def test_a_line_may_reach_only_some_during_a_gap(self) -> None:
        talk = self.history.chat
        talk.gap(200.0, 210.0)
        for who in ("ada", "bo"):
            talk.entered("room", who, 0.0)
        for line, sent_at, received_at in (("early", 100.0, 169.0), ("in it", 165.0, 171.0)):
            talk.sent_times[line] = sent_at
            talk.check_received("room", "ada", line, own=True, now=received_at)
        talk.settle(300.0)
        wrong = [violation.what for violation in self.history.wrong.listed]
        self.assertEqual(wrong, ["bo in room never received 'early'"])

    def test_a_line_must_come_back_to_its_speaker(self) -> None:
        talk = self.history.chat
        for who, line in (("ada", "one"), ("ada", "two"), ("bo", "three")):
            talk.sent_times[line] = 5.0
            talk.spoke("room", who, line)
        talk.check_received("room", "ada", "one", own=True, now=5.1)
        talk.left("room", "bo", 6.0)
        talk.report_lost_lines(5.0 + ECHO_S, lambda since, who: True)
        self.assertEqual(self.rules(), [])
        talk.report_lost_lines(6.0 + ECHO_S, lambda since, who: True)
        self.assertEqual(self.rules(), ["a line comes back"])
        talk.spoke("room", "ada", "two")
        talk.report_lost_lines(6.0 + ECHO_S, lambda since, who: since > 5.0)
        self.assertEqual(len(self.rules()), 1)

    def test_during_a_fault_a_line_may_be_late_but_not_lost(self) -> None:
        talk = self.history.chat
        for line in ("lost", "refused", "late"):
            talk.sent_times[line] = 5.0
            talk.spoke("room", "ada", line)
        talk.refuses("refused")
        talk.report_lost_lines(4.0 + LATE_S, lambda since, who: False)
        talk.check_received("room", "ada", "late", own=True, now=4.0 + LATE_S)
        self.assertEqual(self.rules(), [])
        talk.settle(5.0 + LATE_S)
        wrong = [violation.what for violation in self.history.wrong.listed]
        self.assertEqual(wrong, ["ada in room never received 'lost'"])

    def test_an_unbroken_host_must_not_refuse_without_reason(self) -> None:
        answers = self.history.answers
        answers.check_status("ada", "POST", "/character", 200, 1.0)
        answers.check_status("ada", "PUT", "/party/invite", 409, 1.0)
        answers.check_status("ada", "PUT", "/party/invite/accept/p?x=1", 404, 1.0)
        self.assertEqual(self.rules(), [])
        answers.check_status("ada", "POST", "/account/api/oauth/token", 400, 1.0)
        answers.check_status("ada", "GET", "/character", 503, 1.0)
        answers.check_status("ada", "PUT", "/party/invite/accept/p/q", 404, 1.0)
        answers.unanswered("ada", "GET /character", 1.0)
        self.assertEqual(self.rules(), ["refused for nothing"] * 3 + ["nobody waits for ever"])

    def test_refusals_are_allowed_for_a_minute_after_a_fault(self) -> None:
        answers = self.history.answers
        answers.trouble(100.0)
        answers.trouble(50.0)
        answers.check_status("ada", "GET", "/character", 503, 100.0 + SETTLES_S)
        answers.unanswered("ada", "GET /character", 90.0)
        self.assertEqual(self.rules(), [])
        answers.unanswered("ada", "GET /character", 101.0 + SETTLES_S)
        self.assertEqual(self.rules(), ["nobody waits for ever"])

    def test_a_fault_of_one_line_excuses_only_its_player(self) -> None:
        answers = self.history.answers
        answers.trouble(100.0, "ada__2")
        answers.check_status("ada", "GET", "/character", 503, 90.0)
        self.assertFalse(answers.untroubled(90.0, "ada/3f5a6b"))
        self.assertEqual(self.rules(), [])
        answers.check_status("bo", "GET", "/character", 503, 90.0)
        self.assertEqual(self.rules(), ["refused for nothing"])

    def test_a_rare_event_excuses_only_while_it_is_noticeable(self) -> None:
        self.assertIsNone(traces_s("tokens: not kept in the cache"))
        self.assertEqual(traces_s("web: an answer of /party is lost"), 0.0)
        answers = self.history.answers
        answers.trouble(100.0, settles_s=0.0)
        # the request was pending during the fault
        answers.check_status("ada", "GET", "/character", 503, 100.0)
        self.assertEqual(self.rules(), [])
        answers.check_status("ada", "GET", "/character", 503, 100.1)
        self.assertEqual(self.rules(), ["refused for nothing"])

    def test_replies_must_be_prompt_while_nothing_is_broken(self) -> None:
        answers = self.history.answers
        answers.took("ada", "GET /character", 1.0, 1.0 + PROMPT_S)
        answers.trouble(5.0, settles_s=0.0)
        answers.took("ada", "GET /character", 5.0, 99.0)
        self.assertEqual(self.rules(), [])
        answers.took("ada", "GET /character", 6.0, 6.1 + PROMPT_S)
        self.assertEqual(self.rules(), ["nobody waits for ever"])

    def test_a_save_may_be_refused_only_for_another(self) -> None:
        saves = self.history.saves
        saves.sent("c", 1, "a")
        self.assertFalse(saves.rivalled("c", 1, "a"))
        saves.sent("c", 1, "b")
        self.assertTrue(saves.rivalled("c", 1, "a"))
        saves.sent("c", 2, "a")
        self.assertTrue(saves.rivalled("c", 1, "b"))
        self.assertFalse(saves.rivalled("c", 2, "a"))

    def test_old_saves_are_thinned_and_new_saves_kept(self) -> None:
        saves, hour = self.history.saves, 3_600_000
        saves.answered("c", 4, "d")
        saves.check_saves("c", [(5, hour), (4, hour), (3, hour), (2, 1)], 2)
        self.assertEqual(self.rules(), [])
        saves.check_saves("c", [(5, 2 * hour), (3, hour), (2, hour), (1, hour)], 2)
        saves.check_saves("c", [(5, hour)], 2)
        self.assertEqual(
            self.rules(), ["old saves are thinned", *["acknowledged means present"] * 2]
        )

    def test_an_invite_must_be_shown(self) -> None:
        invites, stays = self.history.invites, [True]

        def sent(at: float) -> None:
            invites.sent("a", Invite("p", "bo", "ada", at, lambda: stays[0]))

        def shown(began: float, *parties: str, well: bool = True) -> None:
            invites.shown("a", parties, began, lambda since, who: well)

        for began, parties in ((2.0, ("p", "q")), (0.5, ()), (2.0 + INVITE_S, ())):
            sent(1.0)
            shown(began, *parties)
        sent(1.0)
        shown(2.0, well=False)
        sent(1.0)
        invites.declining("a")
        shown(2.0)
        sent(1.0)
        stays[0] = False
        shown(2.0)
        self.assertEqual(self.rules(), [])
        stays[0] = True
        sent(1.0)
        shown(2.0, "q")
        self.assertEqual(self.rules(), ["acknowledged means present"])

    def test_a_whisper_must_reach_a_present_session(self) -> None:
        talk = self.history.chat
        talk.entered("room", "ada", 0.0)
        self.assertFalse(talk.is_there("ada", THERE_S))
        self.assertTrue(talk.is_there("ada", THERE_S + 1.0))
        for line in ("heard", "refused", "troubled", "lost"):
            talk.sent_times[line] = 10.0
            talk.owes(line, "ada", "cy" if line == "troubled" else "bo")
        talk.whispered("heard", "ada")
        talk.refuses("refused")
        talk.report_lost_whispers(10.0 + ECHO_S, lambda since, who: who != "cy")
        self.assertEqual(self.rules(), [])
        talk.report_lost_whispers(11.0 + ECHO_S, lambda since, who: who != "cy")
        self.assertEqual([violation.what for violation in self.history.wrong.listed], [LOST_LINE])
        talk.owes("late", "ada", "bo")
        talk.sent_times["late"] = 20.0
        talk.left("room", "ada", 21.0)
        talk.report_lost_whispers(99.0, lambda since, who: True)
        self.assertEqual(self.rules(), ["a whisper is heard"])

    def test_parties_need_seats_and_one_leader(self) -> None:
        parties = self.history.parties
        parties.check_poll("a", "p", ["a", "b"], "a")
        parties.compared({"a": ("p", ("a", "b"), "a"), "b": ("p", ("a", "b"), "a")})
        self.assertEqual(self.rules(), [])
        parties.check_poll("a", "p", ["b"], "b")
        parties.check_poll("a", "p", ["a", "b", "c", "d", "e"], "a")
        parties.check_poll("a", "p", ["a"], "gone")
        parties.compared({"a": ("p", ("a", "b"), "a"), "b": ("q", ("b",), "b")})
        self.assertEqual(
            self.rules(), ["one party each", "seats within limits", "one leader", "one party each"]
        )

    def test_nobody_waits_for_ever(self) -> None:
        waiting = self.history.waiting
        waiting.ended(waiting.began("answered", 0.0))
        waiting.began("forgotten", 0.0)
        waiting.report_overdue(30.0)
        self.assertEqual(self.rules(), [])
        waiting.report_overdue(61.0)
        self.assertEqual(self.rules(), ["nobody waits for ever"])

    def test_a_legitimate_delay_restarts_the_patience(self) -> None:
        waiting = self.history.waiting
        number = waiting.began("behind a hunt that stands still", 0.0, 200.0)
        waiting.restart(number, 150.0, 200.0)
        waiting.report_overdue(349.0)
        self.assertEqual(self.rules(), [])
        waiting.report_overdue(351.0)
        self.assertEqual(self.rules(), ["nobody waits for ever"])
        # the violation was reported, and is not reported again
        waiting.restart(number, 352.0, 200.0)
        waiting.report_overdue(600.0)
        self.assertEqual(len(self.rules()), 1)
