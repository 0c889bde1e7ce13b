"""A throw-away Valkey or Redis for a test run, and an engine for tests without a reactor."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import hiredis
from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed

from svcserver.board.board import Work
from svcserver.board.connection import Argument, EngineReplyError, encoded
from svcserver.board.engine import Ask, BoardAway, Pushed
from svcserver.board.scripts import COMMIT, SCRIPTS, Script
from svcserver.board.valkey import ValkeyBoard
from svcserver.board.waiting import at_once
from tests import tools
from tests.support.processes import PATIENCE_S, eventually, free_port
from tests.support.requirements import skip

T = TypeVar("T")
PASSWORD = "of-the-test-engine"
_databases = count(1)


@define
class Instance:
    """A server on a loopback port that stays the same after a restart.

    The port lies outside the kernel's range for outgoing connections. Otherwise an outgoing
    connection could take the port, or connect to itself, while the server is down.
    """

    binary: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @classmethod
    def make(cls) -> Instance:
        """Create an instance without starting it; skip the test without Valkey and Redis."""
        binary = tools.find("redis-server")
        if binary is None:
            raise skip("valkey", tools.MISSING)
        return cls(binary, Path(tempfile.mkdtemp(prefix="svc-valkey-")), free_port())  # noqa: TID251 - removed below

    @property
    def url(self) -> str:
        return f"valkey://:{PASSWORD}@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        words += ["--save", "", "--appendonly", "no", "--databases", "1000"]
        words += ["--requirepass", PASSWORD]
        self.process = subprocess.Popen([self.binary, *words], stdout=subprocess.DEVNULL)
        eventually(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the engine has ended"
        try:
            with BlockingEngine(self.port) as engine:
                engine.command("PING")
        except (OSError, EngineReplyError):
            return False
        return True

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def end(self) -> None:
        """Stop the server and delete its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@lru_cache(maxsize=1)
def shared() -> Instance:
    """Return the test run's instance; skip the test if neither Valkey nor Redis is installed."""
    made = Instance.make()
    made.start()
    atexit.register(made.end)
    return made


def fresh_url() -> str:
    """Return the URL of an empty database on the shared instance."""
    return f"{shared().url}/{next(_databases) % 1000}"


@define(eq=False, slots=False)
class BlockingEngine:
    """An ``Engine`` whose calls block until the server has answered, as test boards need."""

    port: int
    db: int = 0
    _asking: Any = field(init=False)
    _listening: Any = field(init=False)
    _pushed: Pushed | None = field(default=None, init=False)
    _last_notification: int = field(default=0, init=False)  # the number of the last notification

    def __attrs_post_init__(self) -> None:
        self._asking, self._listening = _Replies(self.port), _Replies(self.port)
        self.command("SELECT", self.db)
        for script in SCRIPTS:
            self.command("SCRIPT", "LOAD", script.text)

    def __enter__(self) -> BlockingEngine:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._asking.close()
        self._listening.close()

    @property
    def space(self) -> str:
        return str(self.db)

    def seconds(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> Deferred[None]:
        return succeed(None)

    def on_messages(
        self, pushed: Pushed, joined: Callable[[], None], disconnected: Callable[[], None]
    ) -> None:
        self._pushed = pushed
        joined()

    def before_all(self, look: Callable[[Ask], Awaitable[None]]) -> None:
        at_once(Deferred.fromCoroutine(look(self.send_command)))  # type: ignore[arg-type]

    def subscribe(self, channel: bytes) -> None:
        self._listening.ask("SUBSCRIBE", channel)

    def catch_up(self) -> None:
        """Process all messages that other processes have published so far."""
        self._listening.ask_only("PING")
        while (replies := self._listening.read())[0] != b"pong":
            self._last_notification = int(replies[2].partition(b" ")[0])
            self._push(replies)

    def _until(self, number: int) -> None:
        """Process messages up to the message with this number."""
        while self._last_notification < number:
            message = self._listening.read()
            self._last_notification = int(message[2].partition(b" ")[0])
            self._push(message)

    def _push(self, reply: Any) -> None:
        assert self._pushed is not None
        self._pushed(reply[1], reply[2])

    def command(self, *command: Argument) -> Any:
        reply = self._asking.ask(*command)
        if isinstance(reply, EngineReplyError):
            raise reply
        return reply

    def send_command(self, *command: Argument) -> Deferred[Any]:
        try:
            return succeed(self.command(*command))
        except OSError:
            return fail(BoardAway())

    def run(self, script: Script, keys: list[bytes], arguments: list[bytes]) -> Deferred[Any]:
        done = self.send_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        reply: Any = getattr(done, "result", None)
        if script is COMMIT and isinstance(reply, list):
            self._until(reply[-1] if len(reply) > 1 else 0)
        return done


class _Replies:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._reader = hiredis.Reader(protocolError=EngineReplyError, replyError=EngineReplyError)

        self.ask("AUTH", PASSWORD)

    def ask(self, *command: Argument) -> Any:
        self.ask_only(*command)
        return self.read()

    def ask_only(self, *command: Argument) -> None:
        self._socket.sendall(encoded(*command))

    def read(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the engine has gone")
            self._reader.feed(data)
        return reply

    def close(self) -> None:
        self._socket.close()


# lets time pass in the engine: shortens the lifetimes of its entries
PASS = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TYPE', key).ok == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, -ARGV[1], member)
    end
  else
    local left = redis.call('PTTL', key)
    if left > 0 then redis.call('PEXPIRE', key, left - ARGV[1]) end
  end
end
"""


class EngineClock:
    """A board's clock for tests; setting it also ages the entries in the engine."""

    def __init__(self, engine: BlockingEngine, start: float) -> None:
        self.engine, self._start = engine, start
        self._passed = 0.0

    def time_of(self, engine_s: float) -> float:
        """Return the board's time, which changes only when a test sets it."""
        return self.now

    @property
    def now(self) -> float:
        return self._start + self._passed

    @now.setter
    def now(self, value: float) -> None:
        by = value - self.now
        self._passed += by
        if by > 0:
            self.engine.command("EVAL", PASS, 0, int(by * 1000))


def pid() -> int:
    """Return the process id of the shared instance."""
    process = shared().process
    assert process is not None and process.pid != os.getpid()
    return process.pid


class EngineBoard:
    """A ``tests.support.live.TestBoard`` on a real engine with an empty database."""

    def __init__(self, now: float = 0.0) -> None:
        instance = shared()
        self.engine = BlockingEngine(instance.port, next(_databases) % 1000)
        self.engine.command("FLUSHDB")
        self._clock = EngineClock(self.engine, now)
        self.board = ValkeyBoard(self.engine, self._clock.time_of)
        self._others: list[BlockingEngine] = []

    def another(self) -> ValkeyBoard:
        """Return another process's board on the same database."""
        second = BlockingEngine(self.engine.port, self.engine.db)
        self._others.append(second)
        return ValkeyBoard(second, self._clock.time_of)

    @property
    def now(self) -> float:
        return self._clock.now

    @now.setter
    def now(self, value: float) -> None:
        self._clock.now = value

    def do(self, work: Work[T], now: float | None = None) -> T:
        """Run ``work`` and return its result; set the time to ``now`` first if it is given."""
        if now is not None:
            self.now = now
        return at_once(self.board.transact(work))

    def close(self) -> None:
        """Close the board's connections."""
        for entry in (self.engine, *self._others):
            entry.close()
