"""The board on a real engine behaves like the memory board, even with several processes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from svcserver.board import scripts, valkey
from svcserver.board.board import BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.quota import Quota
from svcserver.board.scripts import Script
from svcserver.board.waiting import at_once
from svcserver.kernel.refusals import Missing, Unavailable
from tests.board import test_memory
from tests.board.test_memory import NAMES, READ, SIGNS, Left, Seat
from tests.metagame.social.parties.test_machine import PartyMachine
from tests.support.valkey import EngineBoard

pytestmark = pytest.mark.live


class OnEngine(test_memory.Base):
    def make_live(self) -> EngineBoard:
        live = EngineBoard()
        self.addCleanup(live.close)
        return live


class ActTests(OnEngine, test_memory.ActTests):
    pass


class LifeTests(OnEngine, test_memory.LifeTests):
    pass


class ListTests(OnEngine, test_memory.ListTests):
    pass


class NewsTests(OnEngine, test_memory.NewsTests):
    pass


class Parties(PartyMachine):
    make_live = EngineBoard

    def teardown(self) -> None:
        self.live.close()


PartiesTests = Parties.TestCase
PartiesTests.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


class OtherProcessTests(OnEngine):
    def setUp(self) -> None:
        super().setUp()
        self.another = self.live.another()

    def there(self, work: Any) -> Any:
        return self.successResultOf(self.another.transact(work))

    def test_a_process_reads_the_writes_of_another(self) -> None:
        self.put(READ, "a", "Ann")
        self.assertEqual(self.there(lambda transaction: transaction.get(READ, "a")), "Ann")
        self.there(lambda transaction: transaction.drop(READ, "a"))
        self.assertIsNone(self.get(READ, "a"))

    def test_news_reaches_all_in_one_order(self) -> None:
        received: dict[str, list[str]] = {"here": [], "there": []}
        self.live.board.listen(Left, lambda news: received["here"].append(news.who))
        self.another.listen(Left, lambda news: received["there"].append(news.who))
        for number in range(3):
            self.publish(Left(f"here {number}"))
            self.there(
                lambda transaction, number=number: transaction.publish(Left(f"there {number}"))
            )
        self.publish(Left("last"))
        self.another.engine.catch_up()
        self.assertEqual(received["here"], received["there"])
        self.assertEqual(len(received["here"]), 7)

    def test_the_engine_reports_its_version_and_uptime(self) -> None:
        info = self.successResultOf(self.another.engine_info())
        assert info is not None and info.uptime_s is not None
        self.assertRegex(info.version, r"^\d+\.\d+")

    def test_processes_share_a_quota(self) -> None:
        quota = Quota.named("asked", 20, 60.0)
        taken = 0
        for number in range(40):
            do = self.do if number % 2 else self.there
            taken += do(lambda transaction: quota.take(transaction, "ann")) is not None
        self.assertEqual(taken, 20)


class OvertakenTests(OnEngine):
    """Transactions of another process that commit between this process's reads and writes."""

    def setUp(self) -> None:
        super().setUp()
        self.another = self.live.another()
        self.runs = 0

    def between(self, work: Any, times: int = 1) -> None:
        """Run the other process's transaction; it commits between our reads and our writes."""
        self.runs += 1
        if self.runs <= times:
            self.successResultOf(self.another.transact(work))

    def test_a_conflict_runs_again_on_the_current_entries(self) -> None:
        def work(transaction: BoardTransaction) -> str | None:
            value = transaction.get(NAMES, "a")
            self.between(lambda rival: rival.put(NAMES, "a", f"Bob {self.runs}"), times=3)
            transaction.put(NAMES, "b", f"friend of {value}")
            return value

        self.assertEqual(self.do(work), "Bob 3")
        self.assertEqual(self.get(NAMES, "b"), "friend of Bob 3")

    def test_without_the_comparison_outdated_values_are_written(self) -> None:
        """Check that the tests above would fail without the comparison."""
        broken = scripts.COMMIT.text.replace("~= expected then", "~= expected and false then")
        self.assertNotEqual(broken, scripts.COMMIT.text)
        script = Script(broken)
        self.live.engine.command("SCRIPT", "LOAD", script.text)
        self.patch(valkey, "COMMIT", script)
        with self.assertRaises(self.failureException):
            self.test_a_conflict_runs_again_on_the_current_entries()

    def test_a_refusal_counts_only_on_a_consistent_snapshot(self) -> None:
        """Another process moves the seat between two reads, so the first refusal must not count."""
        self.do(
            lambda transaction: (
                transaction.put(NAMES, "seat", "x"),
                transaction.put(NAMES, "x", "free"),
            )
        )

        def move(transaction: BoardTransaction) -> None:
            transaction.put(NAMES, "seat", "y")
            transaction.put(NAMES, "y", "free")
            transaction.drop(NAMES, "x")

        def work(transaction: BoardTransaction) -> str:
            seat = transaction.get(NAMES, "seat")
            if seat is not None:
                self.between(move)
                value = transaction.get(NAMES, seat)
                if value is None:
                    raise Missing("no such seat")
                return value
            return ""

        self.assertEqual(self.do(work), "free")

    def test_a_heartbeat_is_never_compared(self) -> None:
        before = self.live.board.conflicts

        def work(transaction: BoardTransaction) -> None:
            transaction.get(SIGNS, "a")
            self.between(lambda rival: rival.put(SIGNS, "a", 2.0), times=9)
            transaction.put(SIGNS, "a", 3.0)

        self.do(work)
        self.assertEqual(self.live.board.conflicts, before)

    def test_a_heartbeat_is_as_new_as_entries_read_later(self) -> None:
        """A player who just returned to a seat must not appear with an old heartbeat."""
        self.do(
            lambda transaction: (
                transaction.put(SIGNS, "a", 1.0),
                transaction.put(NAMES, "key", "seat"),
            )
        )

        def take(transaction: BoardTransaction) -> None:
            transaction.put(SIGNS, "a", 2.0)
            transaction.put(NAMES, "seat", "a")

        def work(transaction: BoardTransaction) -> tuple[str | None, float | None]:
            seat = transaction.get(NAMES, "key")
            beat = transaction.get(SIGNS, "a")
            if seat is None:
                return None, None
            self.between(take)
            return transaction.get(NAMES, seat), beat

        self.assertEqual(self.do(work), ("a", 2.0))

    def test_endless_conflicts_are_refused(self) -> None:
        def work(transaction: BoardTransaction) -> None:
            transaction.get(NAMES, "a")
            self.between(lambda rival: rival.put(NAMES, "a", str(self.runs)), times=10_000)
            transaction.put(NAMES, "b", "")

        self.failureResultOf(self.live.board.transact(work), Unavailable)

    def test_ids_are_the_same_in_every_run(self) -> None:
        drawn: list[str] = []

        def work(transaction: BoardTransaction) -> None:
            drawn.append(transaction.new_id())
            transaction.get(NAMES, "a")
            self.between(lambda rival: rival.put(NAMES, "a", "Bob"), times=2)
            transaction.put(NAMES, "b", "")

        self.do(work)
        self.assertGreater(len(drawn), 1)
        self.assertEqual(len(set(drawn)), 1)


class TripTests(OnEngine):
    """The number of round trips to the engine."""

    def trips(self, work: Any, near: Any = ()) -> int:
        calls: list[object] = []
        run = self.live.engine.run
        self.patch(self.live.engine, "run", lambda *call: (calls.append(call), run(*call))[1])
        self.successResultOf(self.live.board.transact(work, near))
        self.patch(self.live.engine, "run", run)
        return len(calls)

    def test_a_repeated_chain_of_reads_takes_one_trip(self) -> None:
        self.do(
            lambda transaction: (transaction.put(NAMES, "a", "b"), transaction.put(NAMES, "b", "c"))
        )

        def work(transaction: BoardTransaction) -> str | None:
            value = transaction.get(NAMES, "a")
            return None if value is None else transaction.get(NAMES, value)

        near = [(NAMES, "a")]
        self.assertEqual(self.trips(work, near), 3)  # two loads, and their comparison
        self.assertEqual(self.trips(work, near), 1)

    def test_a_blind_write_takes_one_trip(self) -> None:
        self.get(NAMES, "a")  # from now on the board knows the engine's clock
        self.assertEqual(
            self.trips(lambda transaction: transaction.put(SIGNS, "a", transaction.now)), 1
        )


class ValueTests(OnEngine):
    def test_keys_and_values_may_be_any_text(self) -> None:
        for text in ("", "ä ö\n\r\0", "\ud800", "*", "-", "a" * 100_000):
            self.put(NAMES, text, text.replace("\ud800", ""))
            stored = at_once(
                self.live.another().transact(
                    lambda transaction, text=text: transaction.get(NAMES, text)
                )
            )
            self.assertEqual(stored, text.replace("\ud800", ""))

    def test_a_change_by_another_process_is_read_at_once(self) -> None:
        kind = Kind("seats", Seat)
        another = self.live.another()
        for number in range(5):
            at_once(
                another.transact(
                    lambda transaction, n=number: transaction.put(kind, "a", Seat("ann", n))
                )
            )
            for _ in range(2):
                stored = self.get(kind, "a")
                self.assertEqual(stored, Seat("ann", number))
