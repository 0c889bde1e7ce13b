"""Random player requests; any of them can be repeated and must still count once."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from tests.metagame.attempts.base import BLOCKED, FRIENDS, HUNT, GameFixture
from tests.support.browser import Page
from tests.support.effort import machine

who = st.sampled_from("abc")
LINES = (
    f"POST {FRIENDS}/{{me}}/{{other}}",
    f"DELETE {FRIENDS}/{{me}}/{{other}}",
    f"PUT {BLOCKED}/{{me}}/{{other}}",
    f"DELETE {BLOCKED}/{{me}}/{{other}}",
    "PUT /guild/invite/{other}",
    "PUT /guild/rank/{other}/officer",
    "PUT /guild/rank/{other}/leader",
    "DELETE /guild/player/{other}",
    "DELETE /guild/player",
    "PUT /party/invite/accept/{other}",
    "PUT /party/member/promote/{other}",
    "DELETE /party/member/{other}",
    "DELETE /party/member",
    "DELETE /candidate/leave",
    "DELETE /slayerlink/invites/{other}",
)


# slow: whole games, whose state is compared at each second attempt
class AttemptMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.case = SynchronousTestCase()
        self.fixture = GameFixture(self.case)
        self.players = dict(
            zip("abc", (self.fixture.ann, self.fixture.bob, self.fixture.cat), strict=True)
        )
        self.fixture.create_guild(self.players["a"])
        self.version = 0
        self.sent: list[tuple[tuple[Any, ...], Page]] = []

    def teardown(self) -> None:
        self.fixture.end()
        self.case.doCleanups()

    def ask(self, name: str, line: str, body: Any = None) -> None:
        request = self.fixture.new_id(), self.players[name], line, body
        page = self.fixture.send(request[0], 1, *request[1:])
        assert page.status < 500, page.body
        self.sent.append((request, page))

    @rule(name=who, peer=who, line=st.sampled_from(LINES))
    def act(self, name: str, peer: str, line: str) -> None:
        named = {"me": self.players[name].id, "other": self.players[peer].id}
        self.ask(name, line.format_map(named))

    @rule(name=who, peer=who)
    def invite_to_a_party(self, name: str, peer: str) -> None:
        self.ask(name, "PUT /party/invite", {"recipientPlayerId": self.players[peer].id})

    @rule(name=who)
    def join(self, name: str) -> None:
        self.ask(name, "POST /candidate/join", HUNT)

    @rule(name=who, peer=who, action=st.sampled_from(["accept", "reject", "cancel"]))
    def answer_a_link(self, name: str, peer: str, action: str) -> None:
        body = {"action": action, "account_id": self.players[peer].id}
        self.ask(name, "POST /slayerlink/invite", body)

    @rule(name=who, peer=who, slot=st.integers(1, 3))
    def ask_for_a_link(self, name: str, peer: str, slot: int) -> None:
        body = {"account_id": self.players[peer].id, "slot": slot}
        self.ask(name, "PUT /slayerlink/invite", body)

    @rule(name=who)
    def accept_a_guild(self, name: str) -> None:
        invites = self.fixture.did(self.players[name], "GET /guild/invite/player")["invites"]
        for invite in invites[:1]:
            self.ask(name, f"POST /guild/invite/accept/{invite['id']}")

    @rule(name=who, step=st.integers(-1, 2))
    def save(self, name: str, step: int) -> None:
        self.version = max(0, self.version + step)
        character = self.fixture.character(self.players[name])
        body = {"characterId": character, "data": "{}", "updateVersion": self.version}
        self.ask(name, "POST /character", body)

    @rule(name=who, number=st.integers(1, 3))
    def save_a_loadout(self, name: str, number: int) -> None:
        me, character = self.players[name], self.fixture.character(self.players[name])
        data = json.dump({"slot_index": 0, "n": number}).decode()
        self.ask(name, f"POST /loadout/{me.id}/{character}/0", {"data": data})

    @rule(name=who)
    def create(self, name: str) -> None:
        self.ask(name, "PUT /character", {"name": "Another"})

    @rule(seconds=st.sampled_from([0.0, 0.2, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.fixture.pass_time(seconds)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), number=st.sampled_from([2, 3]))
    def attempt_again(self, data: st.DataObject, number: int) -> None:
        """Repeat one of the latest requests, whatever has happened since."""
        (request_id, *request), first = data.draw(st.sampled_from(self.sent[-12:]))
        before = self.fixture.state()
        again = self.fixture.send(request_id, number, *request)
        if first.status < 400:
            assert (again.status, again.body) == (first.status, first.body), request
            assert self.fixture.state() == before, request
        elif again.status < 400:  # it runs as if it had just arrived, and counts from now on
            self.sent.append(((request_id, *request), again))


AttemptMachine.TestCase.settings = machine(runs=25, steps=40)
TestAttempts = AttemptMachine.TestCase
