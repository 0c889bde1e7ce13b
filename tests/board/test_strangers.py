"""Foreign data on a real engine is ignored and causes no lasting fault."""

from typing import Any

import pytest
from attrs import frozen
from twisted.logger import globalLogPublisher

from svcserver.board.engine_transaction import PREFIX, TAG, Seal, name_of
from svcserver.board.kinds import Kind
from svcserver.board.quota import Quota
from svcserver.board.scripts import MOST_BYTES, STAMP
from svcserver.board.valkey import ValkeyBoard
from tests.board import test_memory
from tests.board.test_memory import Left
from tests.support.valkey import EngineBoard

pytestmark = pytest.mark.live


@frozen
class Right:
    """An example value that grants a permission."""

    holder: str


RIGHTS = Kind("rights", Right, lives_s=60.0)
OPEN = Kind("open_values", Right, lives_s=60.0, sealed=False)
BEATS = Kind("beats_there", float, lives_s=60.0, compared=False, listed=True, sealed=False)
LASTING = Kind("lasting", Right, lives_s=60.0, kept_by_reading=True, sealed=False)
COUNT = Quota.named("counted_there", 2, 60.0)
LIST = f"{PREFIX}{BEATS.name}"


class Base(test_memory.Base):
    live: Any

    def make_live(self) -> EngineBoard:
        live = EngineBoard()
        self.addCleanup(live.close)
        return live

    def engine(self, *command: Any) -> Any:
        return self.live.engine.command(*command)

    def write(self, kind: Kind[Any], key: str, value: bytes) -> None:
        self.engine("SET", name_of(kind, key), value)

    def grant(self, key: str) -> bytes:
        self.put(RIGHTS, key, Right(key))
        entry: bytes = self.engine("GET", name_of(RIGHTS, key))
        return entry


class SealTests(Base):
    def test_an_entry_written_by_this_host_is_read_back(self) -> None:
        self.grant("ann")
        self.assertEqual(self.get(RIGHTS, "ann"), Right("ann"))

    def test_a_strangers_entry_grants_nothing(self) -> None:
        value = b'{"holder":"ann"}'
        tag = Seal(b"").close(name_of(RIGHTS, "ann"), b"x" * STAMP, value)[:TAG]
        self.live.board.seal = Seal(b"our key")
        board = ValkeyBoard(self.live.engine, seal=Seal(b"our key"))
        for there in (b"x" * STAMP + value, b"x" * STAMP + tag + value, value):
            self.write(RIGHTS, "ann", there)
            right = board.transact(lambda transaction: transaction.get(RIGHTS, "ann"))
            self.assertIsNone(self.successResultOf(right))

    def test_a_copy_under_another_key_grants_nothing(self) -> None:
        there = self.grant("ann")
        # from now on the board knows the entry's stamp
        self.assertEqual(self.get(RIGHTS, "ann"), Right("ann"))
        self.write(RIGHTS, "eve", there)
        self.assertIsNone(self.get(RIGHTS, "eve"))

    def test_another_secret_drops_the_entries(self) -> None:
        self.grant("ann")
        rotated = ValkeyBoard(self.live.engine, seal=Seal(b"the next key"))
        right = rotated.transact(lambda transaction: transaction.get(RIGHTS, "ann"))
        self.assertIsNone(self.successResultOf(right))


class DamageTests(Base):
    def setUp(self) -> None:
        super().setUp()
        self.warned: list[str] = []
        globalLogPublisher.addObserver(self.note)
        self.addCleanup(globalLogPublisher.removeObserver, self.note)

    def note(self, event: Any) -> None:
        if event.get("kind") is not None:
            self.warned.append(event["kind"])

    def test_a_damaged_value_is_absent_with_one_warning(self) -> None:
        stamp = b"x" * STAMP
        for kind in (RIGHTS, OPEN, LASTING):
            values = b"", b"{", b"7", b'{"other":1}', b"\xff", b"[" * 9000
            for there in (b"", b"x", *(stamp + value for value in values)):
                self.write(kind, "ann", there)
                self.assertIsNone(self.get(kind, "ann"), (kind.name, there[:40]))
        self.assertEqual(self.warned, ["rights", "open_values", "lasting"])

    def test_a_value_that_is_too_large_is_absent(self) -> None:
        self.write(OPEN, "ann", b"x" * STAMP + b'{"holder":"' + b"a" * MOST_BYTES + b'"}')
        self.assertIsNone(self.get(OPEN, "ann"))

    def test_a_damaged_entry_can_be_written_again(self) -> None:
        for spoil in (("SET", b"x"), ("SET", b"x" * 40), ("RPUSH", b"x"), ("HSET", b"x", b"y")):
            self.engine("DEL", name_of(OPEN, "ann"))
            self.engine(spoil[0], name_of(OPEN, "ann"), *spoil[1:])

            def work(transaction: Any) -> Any:
                value = transaction.get(OPEN, "ann")
                transaction.put(OPEN, "ann", Right("ann"))
                return value

            self.assertIsNone(self.do(work), spoil)
            self.assertEqual(self.get(OPEN, "ann"), Right("ann"), spoil)

    def test_a_value_of_another_type_is_absent_for_each_kind(self) -> None:
        for kind in (RIGHTS, OPEN, LASTING, BEATS, COUNT.kind):
            for spoil in (("RPUSH", "x"), ("SADD", "x"), ("ZADD", 1, "x"), ("HSET", "x", "y")):
                self.engine("DEL", name_of(kind, "ann"))
                self.engine(spoil[0], name_of(kind, "ann"), *spoil[1:])
                self.assertIsNone(self.get(kind, "ann"), (kind.name, spoil))

    def test_a_damaged_count_starts_again(self) -> None:
        for there in (b"x", b"x" * STAMP + b'["a"]', b"x" * STAMP + b'{"a":1}'):
            self.write(COUNT.kind, "ann", there)
            self.assertIsNotNone(self.do(lambda transaction: COUNT.take(transaction, "ann")))

    def test_a_damaged_list_lists_later_entries(self) -> None:
        for spoil in (("SET", b"x"), ("RPUSH", b"x")):
            self.engine("DEL", LIST)
            self.engine(spoil[0], LIST, *spoil[1:])
            self.assertEqual(
                self.do(lambda transaction: (transaction.count(BEATS), transaction.each(BEATS))),
                (0, []),
            )
            self.engine("DEL", LIST)
            self.engine(spoil[0], LIST, *spoil[1:])
            self.put(BEATS, "ann", 1.0)
            self.assertEqual(self.do(lambda transaction: transaction.each(BEATS)), [("ann", 1.0)])

    def test_a_list_ignores_members_that_are_no_entries(self) -> None:
        self.put(BEATS, "ann", 1.0)
        self.engine(
            "ZADD", LIST, "inf", b"\xff\xfe", "inf", "nobody", "inf", "damaged", "inf", "typed"
        )
        self.write(BEATS, "damaged", b"x" * STAMP + b'"x"')
        self.engine("RPUSH", name_of(BEATS, "typed"), "x")
        self.assertEqual(self.do(lambda transaction: transaction.each(BEATS)), [("ann", 1.0)])

    def test_damaged_counters_of_news_stop_no_transaction(self) -> None:
        channel = f"svc:{self.live.engine.space}:news"
        received: list[str] = []
        self.live.board.listen(Left, lambda news: received.append(news.who))
        spoils = (("told", "SET", "x"), ("told", "RPUSH", "x"), ("told", "SET", str(2**63 - 1)),
                  ("told", "SET", "-7"), ("told", "SET", str(10**15)), ("lately", "SET", "x"),
                  ("life", "RPUSH", "x"))  # fmt: skip
        for name, *spoil in spoils:
            self.engine("DEL", f"{channel}:{name}")
            self.engine(spoil[0], f"{channel}:{name}", *spoil[1:])
            self.publish(Left(name))
        self.assertEqual(received, [name for name, *_ in spoils])
