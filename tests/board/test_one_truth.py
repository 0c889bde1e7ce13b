"""Two workers act on the same parties at once: what both were answered is what one would have said.

Every act also tells news, by whose numbers all acts have one order. In that order they are done
again on the board in memory, each at its time and with its ids: the answers must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from attrs import define, field, frozen
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board import scripts, valkey
from svcserver.board.board import Sheet
from svcserver.board.memory import MemoryBoard, MemorySheet
from svcserver.board.scripts import Script
from svcserver.board.valkey import ValkeyBoard
from svcserver.board.waiting import at_once
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.social.parties.rules import Parties
from svcserver.metagame.social.parties.store import LiveParties, near
from tests.support.valkey import EngineBoard

pytestmark = pytest.mark.live

PLAYERS = [f"p{number}" for number in range(5)]
ACTS = 250  # of each worker
Rule = Callable[[Parties], Any]


@frozen
class Done:
    """The news of an act."""

    act: str


@define
class Act:
    """One act: what it does, and what its last run saw and gave."""

    rule: Rule
    now: float = 0.0
    ids: list[str] = field(factory=list)
    answer: Any = None

    def on(self, parties: LiveParties, sheet: Any, name: str) -> Any:
        """The answer; a refusal is one, and leaves nothing."""
        try:
            answer = self.rule(parties.on(sheet))
        except Refusal as why:
            sheet.written.clear()
            sheet.news.clear()
            answer = type(why), why.message
        sheet.tell(Done(name))
        return answer


class Replay(MemoryBoard):
    """Gives each act its time and its ids."""

    act_now: Act

    def _run(self, work: Any, now: float) -> tuple[Any, MemorySheet]:
        sheet = MemorySheet(self.act_now.now, self._tables, list(self.act_now.ids))
        return work(sheet), sheet


def some_rule(rng: random.Random) -> tuple[Rule, str]:
    me, other = rng.sample(PLAYERS, 2)

    def accept(parties: Parties) -> Any:
        invites = parties.invites_to(me)
        return [parties.accept(one) for one in invites[:1]]

    rules: list[Rule] = [
        lambda parties: parties.poll(me),
        lambda parties: parties.invite(me, other, blocked=False),
        accept,
        accept,
        lambda parties: parties.leave(me),
        lambda parties: parties.kick(me, other),
        lambda parties: parties.promote(me, other),
    ]
    return rng.choice(rules), me


class StormTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.live = EngineBoard()
        self.addCleanup(self.live.close)
        self.live.now = 1_790_000_000.0
        self.acts: dict[str, Act] = {}
        self.failed: list[BaseException] = []

    def worker(self, board: ValkeyBoard, name: str) -> None:
        rng, parties = random.Random(name), LiveParties(board)
        try:
            for number in range(ACTS):
                self.one(board, parties, f"{name} {number}", *some_rule(rng))
        except BaseException as why:
            self.failed.append(why)

    def one(self, board: ValkeyBoard, parties: LiveParties, name: str, rule: Rule, me: str) -> None:
        act = self.acts[name] = Act(rule)

        def work(sheet: Sheet) -> Any:
            answer = act.on(parties, sheet, name)
            act.now, act.ids = sheet.now, getattr(sheet, "_ids")[:]  # noqa: B009
            return answer

        act.answer = at_once(board.act(work, near(me)))

    def storm(self) -> list[str]:
        """All acts in the order of their news."""
        order: list[str] = []
        boards = [self.live.board, self.live.another()]
        boards[0].listen(Done, lambda news: order.append(news.act))
        threads = [
            Thread(target=self.worker, args=(board, name))
            for board, name in zip(boards, "ab", strict=True)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        self.live.engine.catch_up()
        self.assertEqual(self.failed, [])
        self.conflicts = sum(board.conflicts for board in boards)
        return order

    def lies(self, order: list[str]) -> list[str]:
        """The acts whose answer one worker alone would not have given."""
        board = Replay(lambda: 0.0)
        parties, found = LiveParties(board), []
        for name in order:
            act = board.act_now = self.acts[name]
            said = at_once(board.act(lambda sheet, a=act, n=name: a.on(parties, sheet, n)))
            if said != act.answer:
                found.append(name)
        return found

    def test_every_answer_is_that_of_one_worker_in_the_order_of_the_commits(self) -> None:
        order = self.storm()
        self.assertEqual(sorted(order), sorted(self.acts))
        self.assertGreater(self.conflicts, 0)
        self.assertEqual(self.lies(order), [])

    def test_without_the_comparison_there_are_other_answers(self) -> None:
        """The sabotage: what the test above rests on."""
        script = Script(
            scripts.COMMIT.text.replace("~= expected then", "~= expected and false then")
        )
        self.live.engine.command("SCRIPT", "LOAD", script.text)
        self.patch(valkey, "COMMIT", script)
        self.patch(__import__("tests.support.valkey", fromlist=["COMMIT"]), "COMMIT", script)
        self.assertNotEqual(self.lies(self.storm()), [])
