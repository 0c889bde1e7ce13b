"""The engine ends and begins anew with nothing in it, as after kill -9: on the model of Valkey.

What an act read in its former life is not there: it runs again. What a process tells before another
listens again is heard by that one later, and once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.trial.unittest import SynchronousTestCase

from simulation.clock import World
from simulation.network import Network
from simulation.valkey import SimValkey
from svcserver.board.board import BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.scripts import SCRIPTS
from svcserver.board.valkey import ValkeyBoard
from svcserver.board.waiting import at_once
from tests.support.engine_model import ModelEngine

SEATS, LEADERS = Kind("seats_anew", str), Kind("leaders_anew", str)
AWAY_S = 0.5


@frozen
class Line:
    """Some news."""

    text: str


@define(eq=False, slots=False)
class Anew(ModelEngine):
    """Its two connections end with the engine, and come back when the test says so."""

    joined: Callable[[], None] = field(init=False)
    lost: Callable[[], None] = field(init=False)

    def hear(self, pushed: Any, joined: Callable[[], None], lost: Callable[[], None]) -> None:
        self.joined, self.lost = joined, lost
        super().hear(pushed, joined, lost)

    def run(self, script: Any, keys: Any, arguments: Any) -> Any:
        """Without the refusals of ``ModelEngine``."""
        done = self.ask("EVALSHA", script.sha, len(keys), *keys, *arguments)
        self.deliver()
        return done

    def ask_again(self) -> None:
        """The connection that asks is back."""
        for script in SCRIPTS:
            self.command("SCRIPT", "LOAD", script.text)

    def listen_again(self, channel: bytes) -> None:
        """The connection that listens is back."""
        self.model.wires[self._wire] = None
        self.subscribe(channel)
        self.joined()


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(1)
        self.model = SimValkey(self.world, Network(self.world, lambda *_: None))
        self.model.start()
        self.boards = [ValkeyBoard(Anew(self.model)) for _ in range(2)]
        self.heard: list[list[str]] = [[], []]
        self.missed = [0, 0]
        for number, board in enumerate(self.boards):
            board.listen(Line, lambda line, n=number: self.heard[n].append(line.text))
            board.when_missed(lambda n=number: self.miss(n))

    def miss(self, number: int) -> None:
        self.missed[number] += 1

    def engine(self, number: int) -> Anew:
        found: Any = self.boards[number].engine
        return found

    def empty(self) -> None:
        """The engine is there again, with nothing, and both can ask it."""
        for number in range(2):
            self.engine(number).lost()
        self.model.empty(AWAY_S)
        self.world.run_until(self.world.now + AWAY_S)
        for number in range(2):
            self.engine(number).ask_again()

    def listen(self, number: int) -> None:
        self.engine(number).listen_again(b"svc:0:news")

    def tell(self, number: int, text: str) -> None:
        at_once(self.boards[number].transact(lambda transaction: transaction.publish(Line(text))))
        for one in range(2):
            self.engine(one).deliver()


class NewsTests(Base):
    def test_what_one_tells_before_another_listens_again_is_heard_by_both(self) -> None:
        self.tell(0, "before")
        self.empty()
        self.listen(0)
        self.tell(0, "early")
        self.listen(1)
        self.tell(0, "late")
        self.assertEqual(self.heard, [["before", "early", "late"]] * 2)
        self.assertEqual(self.missed, [1, 1])

    def test_so_is_what_one_tells_before_it_listens_itself(self) -> None:
        self.tell(0, "before")
        self.empty()
        self.tell(0, "early")
        self.listen(1)
        self.listen(0)
        self.assertEqual(self.heard, [["before", "early"]] * 2)

    def test_the_same_words_as_in_its_former_life_are_heard_as_well(self) -> None:
        for text in ("one", "two"):
            self.tell(0, text)
        self.empty()
        for text in ("three", "two"):
            self.tell(0, text)
        for number in range(2):
            self.listen(number)
        self.assertEqual(self.heard, [["one", "two", "three", "two"]] * 2)

    def test_nor_does_a_second_end_lose_any(self) -> None:
        for life in range(3):
            self.tell(0, f"early {life}")
            for number in range(2):
                if life:
                    self.listen(number)
            self.tell(1, f"late {life}")
            self.empty()
        told = [f"{when} {life}" for life in range(3) for when in ("early", "late")]
        self.assertEqual(self.heard, [told] * 2)


class ActTests(Base):
    """The comparison of COMMIT needs no name of a life: an entry's stamp is of one life alone."""

    def run_over(self, work: Callable[[BoardTransaction], Any]) -> tuple[Any, int]:
        """The result of an act whose engine is emptied after its first run; how often it ran."""
        runs = 0

        def over(transaction: BoardTransaction) -> Any:
            nonlocal runs
            given = work(transaction)
            if not getattr(transaction, "missing"):  # noqa: B009
                runs += 1
                if runs == 1:
                    self.empty()
            return given

        return at_once(self.boards[0].transact(over, [(SEATS, "a")])), runs

    def test_what_rests_on_an_entry_of_its_former_life_runs_again(self) -> None:
        at_once(self.boards[1].transact(lambda transaction: transaction.put(SEATS, "a", "ann")))

        def work(transaction: BoardTransaction) -> str | None:
            found = transaction.get(SEATS, "a")
            transaction.put(LEADERS, "a", found or "nobody")
            return found

        self.assertEqual(self.run_over(work), (None, 2))
        self.assertEqual(at_once(self.boards[1].transact(lambda s: s.get(LEADERS, "a"))), "nobody")

    def test_also_where_it_only_reads_what_it_took_several_loads_to_bring(self) -> None:
        def plant(transaction: BoardTransaction) -> None:
            transaction.put(SEATS, "a", "ann")
            transaction.put(LEADERS, "ann", "yes")

        at_once(self.boards[1].transact(plant))

        def work(transaction: BoardTransaction) -> str | None:
            seat = transaction.get(SEATS, "a")
            return None if seat is None else transaction.get(LEADERS, seat)

        self.assertEqual(self.run_over(work), (None, 2))

    def test_what_rests_on_nothing_of_it_counts_as_it_is(self) -> None:
        """What was absent is absent: the same act in the new life would do the same."""

        def work(transaction: BoardTransaction) -> str | None:
            found = transaction.get(SEATS, "a")
            transaction.put(SEATS, "a", "bob")
            return found

        self.assertEqual(self.run_over(work), (None, 1))
        self.assertEqual(
            at_once(self.boards[1].transact(lambda transaction: transaction.get(SEATS, "a"))), "bob"
        )
