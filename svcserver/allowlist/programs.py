"""Runs firewall programs by absolute path, with the script on standard input."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

log = Logger()

TIMEOUT_S = 30.0
MAX_OUTPUT = 64 * 1024  # bytes of a program's output that are stored
_ENVIRONMENT = {"LANG": "C", "LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_WINDOWS = ("SYSTEMROOT", "SYSTEMDRIVE", "PATH", "PATHEXT", "PSMODULEPATH", "TEMP", "TMP")


class FirewallError(Exception):
    """The error of a failed firewall program; ``str()`` is one short line."""


@frozen
class ProgramOutput:
    """A program's output and exit code, which is -1 if the program was killed."""

    code: int
    out: str
    err: str


def environment(environ: Mapping[str, str], platform: str = sys.platform) -> dict[str, str]:
    """Return the environment of a firewall program, without our secrets.

    On Windows the environment keeps the variables that PowerShell needs to start.
    """
    if platform != "win32":
        return dict(_ENVIRONMENT)
    return {name: text for name, text in environ.items() if name.upper() in _WINDOWS}


@define(eq=False)
class Programs:
    """The runner of firewall programs; it starts them and waits until they end."""

    reactor: Any  # IReactorProcess and IReactorTime
    environment: dict[str, str] = field(factory=lambda: environment(os.environ))

    def run(self, argv: Sequence[str], script: str = "", *, may_fail: bool = False) -> Any:
        """Run a program; the Deferred fires with its ProgramOutput, or fails with FirewallError.

        An exit code other than 0 is a failure unless ``may_fail``.
        """
        done: Deferred[ProgramOutput] = Deferred()
        run = _Run(argv[0], script, self.reactor, done)
        try:
            self.reactor.spawnProcess(run, argv[0], list(argv), self.environment)
        except OSError as why:
            run.give_up(f"{argv[0]} cannot be started: {why.strerror or why}")
        if not may_fail:
            done.addCallback(_must_succeed, argv[0])
        return done


def _must_succeed(output: ProgramOutput, program: str) -> ProgramOutput:
    if output.code != 0:
        message = " ".join(output.err.split())[:300]
        raise FirewallError(f"{program} exited with status {output.code}: {message}")
    return output


class _Run(ProcessProtocol):
    """A running program; its output is collected, and it is killed after ``TIMEOUT_S``."""

    def __init__(
        self, program: str, script: str, clock: Any, done: Deferred[ProgramOutput]
    ) -> None:
        self._program, self._script = program, script
        self._done: Deferred[ProgramOutput] | None = done
        self._output: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self._deadline: IDelayedCall = clock.callLater(TIMEOUT_S, self._late)

    def connectionMade(self) -> None:
        transport: Any = self.transport
        if self._script:
            transport.write(self._script.encode("ascii"))
        transport.closeStdin()

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        output = self._output.get(childFD)
        if output is not None:
            output += data[: MAX_OUTPUT - len(output)]

    def processEnded(self, reason: Failure) -> None:
        code = getattr(reason.value, "exitCode", None)
        out, err = (bytes(self._output[fd]).decode("utf-8", "replace") for fd in (1, 2))
        done = self._finish()
        if done is not None:
            done.callback(ProgramOutput(-1 if code is None else code, out, err))

    def give_up(self, why: str) -> None:
        done = self._finish()
        if done is not None:
            done.errback(FirewallError(why))

    def _late(self) -> None:
        transport: Any = self.transport
        log.error("{program} did not end in time and was killed", program=self._program)
        if transport is not None and transport.pid:
            transport.signalProcess("KILL")
        self.give_up(f"{self._program} did not end within {TIMEOUT_S:.0f} s")

    def _finish(self) -> Deferred[ProgramOutput] | None:
        done, self._done = self._done, None
        if self._deadline.active():
            self._deadline.cancel()
        return done
