"""An engine's error replies, and the errors after which the client must reconnect."""

from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.address import EngineAddress
from svcserver.board.connection import EngineReplyError
from svcserver.board.engine import BoardAway, BoardEngine


@define
class RefusingWire:
    """A connection whose engine answers every command with an error."""

    why: str
    cuts: int = 0

    def send_command(self, *command: Any) -> Deferred[Any]:
        return fail(EngineReplyError(self.why))

    def cut(self) -> None:
        self.cuts += 1


class StaleTests(SynchronousTestCase):
    def cuts(self, why: str) -> tuple[int, int]:
        """Let a command fail with this error; return how often each connection is aborted."""
        engine: Any = BoardEngine(Clock(), EngineAddress.parse("valkey://127.0.0.1:1"))
        asking, listening = (RefusingWire(why) for _ in range(2))
        engine._asking.wire, engine._listening.wire = asking, listening
        self.failureResultOf(engine.send_command("SET", "a", "b"), BoardAway)
        return asking.cuts, listening.cuts

    def test_an_engine_that_is_no_master_is_disconnected(self) -> None:
        for why in (
            "READONLY You can't write against a read only replica.",
            "ERR Error running script: @user_script:3: -READONLY You can't write",
            "MASTERDOWN Link with MASTER is down",
            "LOADING the dataset is in memory",
        ):
            self.assertEqual(self.cuts(why), (1, 1), why)

    def test_a_refused_command_keeps_the_connection(self) -> None:
        self.assertEqual(self.cuts("OOM command not allowed"), (0, 0))

    def test_missing_scripts_reconnect_only_the_command_connection(self) -> None:
        self.assertEqual(self.cuts("NOSCRIPT No matching script."), (1, 0))
