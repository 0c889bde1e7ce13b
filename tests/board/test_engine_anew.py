"""The engine restarts without data, as after ``kill -9``; tested on the model of Valkey.

A transaction runs again if entries that it read before the restart are gone. If another process
resubscribes only after a notification was sent, the notification still reaches that process exactly
once.
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
    """An example notification."""

    text: str


@define(eq=False, slots=False)
class Anew(ModelEngine):
    """An engine whose two connections break when it stops; the test reconnects them."""

    joined: Callable[[], None] = field(init=False)
    left: Callable[[], None] = field(init=False)

    def on_messages(
        self, pushed: Any, joined: Callable[[], None], left: Callable[[], None]
    ) -> None:
        self.joined, self.left = joined, left
        super().on_messages(pushed, joined, left)

    def run(self, script: Any, keys: Any, arguments: Any) -> Any:
        """Run a script without the simulated conflicts of ``ModelEngine``."""
        done = self.send_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        self.deliver()
        return done

    def ask_again(self) -> None:
        """Restore the connection that sends commands."""
        for script in SCRIPTS:
            self.command("SCRIPT", "LOAD", script.text)

    def listen_again(self, channel: bytes) -> None:
        """Restore the connection that receives notifications."""
        self.model.wires[self._wire] = None
        self.subscribe(channel)
        self.joined()


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(1)
        self.model = SimValkey(self.world, Network(self.world, lambda *_: None))
        self.model.start()
        self.boards = [ValkeyBoard(Anew(self.model)) for _ in range(2)]
        self.received: list[list[str]] = [[], []]
        self.missed = [0, 0]
        for number, board in enumerate(self.boards):
            board.listen(Line, lambda line, n=number: self.received[n].append(line.text))
            board.when_missed(lambda n=number: self.miss(n))

    def miss(self, number: int) -> None:
        self.missed[number] += 1

    def engine(self, number: int) -> Anew:
        engine: Any = self.boards[number].engine
        return engine

    def empty(self) -> None:
        """Restart the engine without data and restore its command connections."""
        for number in range(2):
            self.engine(number).left()
        self.model.empty(AWAY_S)
        self.world.run_until(self.world.now + AWAY_S)
        for number in range(2):
            self.engine(number).ask_again()

    def listen(self, number: int) -> None:
        self.engine(number).listen_again(b"svc:0:news")

    def publish(self, number: int, text: str) -> None:
        at_once(self.boards[number].transact(lambda transaction: transaction.publish(Line(text))))
        for receiver in range(2):
            self.engine(receiver).deliver()


class NewsTests(Base):
    def test_news_before_another_process_reconnects_reaches_both(self) -> None:
        self.publish(0, "before")
        self.empty()
        self.listen(0)
        self.publish(0, "early")
        self.listen(1)
        self.publish(0, "late")
        self.assertEqual(self.received, [["before", "early", "late"]] * 2)
        self.assertEqual(self.missed, [1, 1])

    def test_news_before_its_own_process_reconnects_reaches_both(self) -> None:
        self.publish(0, "before")
        self.empty()
        self.publish(0, "early")
        self.listen(1)
        self.listen(0)
        self.assertEqual(self.received, [["before", "early"]] * 2)

    def test_news_with_the_text_of_the_former_life_is_delivered(self) -> None:
        for text in ("one", "two"):
            self.publish(0, text)
        self.empty()
        for text in ("three", "two"):
            self.publish(0, text)
        for number in range(2):
            self.listen(number)
        self.assertEqual(self.received, [["one", "two", "three", "two"]] * 2)

    def test_two_restarts_of_the_engine_lose_no_news(self) -> None:
        for life in range(3):
            self.publish(0, f"early {life}")
            for number in range(2):
                if life:
                    self.listen(number)
            self.publish(1, f"late {life}")
            self.empty()
        published = [f"{when} {life}" for life in range(3) for when in ("early", "late")]
        self.assertEqual(self.received, [published] * 2)


class ActTests(Base):
    """Transactions during the engine's restart.

    An entry's stamp is unique to one run of the engine, so a commit need not compare the engine's
    run id.
    """

    def run_over(self, work: Callable[[BoardTransaction], Any]) -> tuple[Any, int]:
        """Restart the engine after the work's first run; return the result and number of runs."""
        runs = 0

        def over(transaction: BoardTransaction) -> Any:
            nonlocal runs
            result = work(transaction)
            if not getattr(transaction, "missing"):  # noqa: B009
                runs += 1
                if runs == 1:
                    self.empty()
            return result

        return at_once(self.boards[0].transact(over, [(SEATS, "a")])), runs

    def test_work_that_read_an_entry_of_the_former_life_runs_again(self) -> None:
        at_once(self.boards[1].transact(lambda transaction: transaction.put(SEATS, "a", "ann")))

        def work(transaction: BoardTransaction) -> str | None:
            seat = transaction.get(SEATS, "a")
            transaction.put(LEADERS, "a", seat or "nobody")
            return seat

        self.assertEqual(self.run_over(work), (None, 2))
        self.assertEqual(at_once(self.boards[1].transact(lambda s: s.get(LEADERS, "a"))), "nobody")

    def test_read_only_work_of_several_loads_runs_again(self) -> None:
        def plant(transaction: BoardTransaction) -> None:
            transaction.put(SEATS, "a", "ann")
            transaction.put(LEADERS, "ann", "yes")

        at_once(self.boards[1].transact(plant))

        def work(transaction: BoardTransaction) -> str | None:
            seat = transaction.get(SEATS, "a")
            return None if seat is None else transaction.get(LEADERS, seat)

        self.assertEqual(self.run_over(work), (None, 2))

    def test_work_that_read_an_absent_entry_runs_once(self) -> None:
        """The entry is absent after the restart as well, so the result is the same."""

        def work(transaction: BoardTransaction) -> str | None:
            seat = transaction.get(SEATS, "a")
            transaction.put(SEATS, "a", "bob")
            return seat

        self.assertEqual(self.run_over(work), (None, 1))
        self.assertEqual(
            at_once(self.boards[1].transact(lambda transaction: transaction.get(SEATS, "a"))), "bob"
        )
