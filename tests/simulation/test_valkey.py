"""The model of Valkey answers like a real Valkey and loses the newest writes at a failover."""

import re
from typing import Any

import hiredis
import pytest
from twisted.trial.unittest import SynchronousTestCase

from simulation.clock import World
from simulation.network import Network
from simulation.valkey import SimValkey
from svcserver.board.connection import Argument, EngineReplyError
from svcserver.board.scripts import COMMIT, LISTED, LOAD, SCRIPTS
from tests.support.valkey import BlockingEngine, shared

STAMPS = [f"stamp-{number:06}".encode() for number in range(10)]
LIST = b"svc:kind"
LIFE = re.compile(rb"^(0 life )\d+\.\d+$")


class Model:
    """The model, used without a network."""

    def __init__(self) -> None:
        self.world = World(1)
        self.engine = SimValkey(self.world, Network(self.world, lambda *_: None))
        self.engine.start()
        for script in SCRIPTS:
            self.command("SCRIPT", "LOAD", script.text)

    def command(self, *command: Argument) -> Any:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
        wire: Any = None
        reader = hiredis.Reader(protocolError=EngineReplyError, replyError=EngineReplyError)
        reader.feed(self.engine.answer(wire, words))
        return reader.gets()


def commit(*writes: tuple[bytes, bytes, bytes, bytes, bytes], news: int = 0) -> list[Argument]:
    """Return a COMMIT command with these writes and ``news`` notifications.

    A write consists of key, expected stamp, value, lifetime and list.
    """
    words: list[Argument] = ["EVALSHA", COMMIT.sha, len(writes), *(write[0] for write in writes)]
    for write in writes:
        words += write[1:]
    for number in range(news):
        words += [b"svc:0:news", b"name %d" % number]
    return words


def put(name: bytes, at: int, life: bytes = b"", listed: bytes = b"") -> tuple[bytes, ...]:
    return LIST + b":" + name, b"*", STAMPS[at] + b"value", life, listed


COMMANDS: tuple[list[Argument], ...] = (
    ["PING"],
    ["GET", b"nothing"],
    commit((b"a", b"", STAMPS[0] + b"1", b"", b"")),
    commit((b"a", b"", STAMPS[1] + b"2", b"", b"")),  # refused, because the entry exists
    commit((b"b", b"*", STAMPS[1] + b"3", b"", b""), (b"a", STAMPS[1], b"-", b"", b"")),
    ["GET", b"b"],  # nothing of the refused commit was written
    commit((b"a", STAMPS[0], STAMPS[2] + b"4", b"60000", b""), news=2),
    commit(news=1),
    ["GET", b"svc:0:news:told"],
    ["GET", b"svc:0:news:life"],
    ["GET", b"svc:1:news:life"],
    ["LRANGE", b"svc:0:news:lately", -2, -1],
    ["LRANGE", b"svc:0:news:lately", -64, -1],
    ["LRANGE", b"svc:1:news:lately", -64, -1],
    commit(put(b"x", 3, b"90000", LIST), put(b"y", 4, b"", LIST), put(b"z", 5, b"50000", LIST)),  # type: ignore[arg-type]
    ["EVALSHA", LISTED.sha, 1, LIST, b"ZCOUNT", b"(1"],
    ["EVALSHA", LISTED.sha, 1, LIST, b"ZRANGEBYSCORE", b"(1"],
    commit((LIST + b":x", STAMPS[3], b"", b"", LIST)),
    ["EVALSHA", LISTED.sha, 1, LIST, b"ZRANGEBYSCORE", b"(1"],
    ["EVALSHA", LISTED.sha, 1, b"svc:none", b"ZCOUNT", b"(1"],
    ["GET", LIST + b":x"],
    ["GET", LIST + b":y"],
    commit((b"a", STAMPS[2], b"", b"", b"")),
    ["GET", b"a"],
    ["PUBSUB", "NUMSUB", b"svc:0:running"],
    ["DEL", LIST + b":y", b"nothing"],
    ["GET", LIST + b":y"],
)


def nameless(reply: Any) -> Any:
    """Return a reply without the id of the engine's current run."""
    if isinstance(reply, list):
        return [nameless(element) for element in reply]
    return LIFE.sub(rb"\1", reply) if isinstance(reply, bytes) else reply


@pytest.mark.live
class AsTheRealOneTests(SynchronousTestCase):
    def test_model_and_engine_reply_alike(self) -> None:
        model, real = Model(), BlockingEngine(shared().port, 999)
        self.addCleanup(real.close)
        real.command("FLUSHDB")
        for command in COMMANDS:
            model_reply, real_reply = model.command(*command), real.command(*command)
            self.assertEqual(nameless(model_reply), nameless(real_reply), command)


class ModelTests(SynchronousTestCase):
    def test_load_returns_the_time_and_renews_entries(self) -> None:
        model = Model()
        model.command(*commit((b"a", b"*", STAMPS[0], b"10000", b"")))
        load = ["EVALSHA", LOAD.sha, 2, b"a", b"none"]
        model.world.run_until(model.world.now + 8)
        self.assertEqual(model.command(*load, b"10000", b"")[2:], [STAMPS[0], b""])
        model.world.run_until(model.world.now + 8)
        seconds, micros, *values = model.command(*load, b"", b"")
        self.assertEqual(int(seconds) + int(micros) / 1e6, model.world.now)
        self.assertEqual(values, [STAMPS[0], b""])
        model.world.run_until(model.world.now + 3)
        self.assertEqual(model.command(*load, b"", b"")[2:], [b"", b""])


class FailoverTests(SynchronousTestCase):
    def test_a_failover_loses_the_newest_writes_and_scripts(self) -> None:
        model = Model()
        model.command(*commit((b"a", b"*", STAMPS[0], b"", b""), news=1))
        model.world.run_until(model.world.now + 5)
        model.command(*commit((b"a", STAMPS[0], STAMPS[1], b"", b""), news=1))
        model.command(*commit(put(b"x", 3, b"90000", LIST)))  # type: ignore[arg-type]
        model.engine.fail_over(2.0, 1.0)
        model.world.run_until(model.world.now + 2)
        self.assertEqual(model.command("GET", b"a"), STAMPS[0])
        self.assertEqual(model.command("GET", b"svc:0:news:told"), b"1")
        again = model.command(*commit())
        self.assertTrue(str(again).startswith("NOSCRIPT"))
        model.command("SCRIPT", "LOAD", LISTED.text)
        self.assertEqual(model.command("EVALSHA", LISTED.sha, 1, LIST, b"ZCOUNT", b"(1"), 0)
