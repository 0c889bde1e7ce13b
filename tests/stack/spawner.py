"""A reactor that records the processes that would be spawned; tests end these processes."""

from typing import Any

from attrs import define, field
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.interfaces import IReactorProcess
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.stack.child import PREPARED


@define(eq=False)
class Spawned:
    """A fake process: it records what would be spawned, and starts nothing."""

    protocol: Any
    arguments: list[str]
    environment: dict[str, str]
    folder: str | None
    obedient: bool = True
    signals: list[str] = field(factory=list)
    gone: bool = False
    written: bytes = b""

    @property
    def pid(self) -> int | None:
        return None if self.gone else 1

    def write(self, data: bytes) -> None:
        self.written += data

    def closeStdin(self) -> None:
        """Do nothing."""

    @property
    def name(self) -> str:
        return self.protocol.name

    @property
    def waits(self) -> bool:
        """Return whether the process is prepared and waits for the signal to start."""
        return PREPARED in self.arguments and not self.written

    def says(self, text: str) -> None:
        """Print a line on the process's standard output."""
        self.protocol.outReceived(text.encode() + b"\n")

    def signalProcess(self, signal: str) -> None:
        """Record the signal; SIGKILL ends the process, but another signal only if ``obedient``."""
        if self.gone:
            raise ProcessExitedAlready
        self.signals.append(signal)
        if self.obedient or signal == "KILL":
            self.ends()

    def ends(self, status: int = 0, signal: int | None = None) -> None:
        """End the process."""
        self.gone = True
        why = ProcessTerminated(status, signal) if status or signal else ProcessDone(0)
        self.protocol.processEnded(Failure(why))


@implementer(IReactorProcess)
class Spawner(Clock):
    """A clock that the test advances, which records spawned processes."""

    def __init__(self) -> None:
        super().__init__()
        self.spawned: list[Spawned] = []
        self.missing = False

    def spawnProcess(
        self,
        processProtocol: Any,
        executable: Any,
        args: Any = (),
        env: Any = None,
        path: Any = None,
        **rest: Any,
    ) -> Any:
        if self.missing:
            raise FileNotFoundError(2, "No such file or directory")
        process = Spawned(processProtocol, list(args), dict(env), path)
        processProtocol.makeConnection(process)
        self.spawned.append(process)
        return process

    @property
    def names(self) -> list[str]:
        """Return the started components in order, without the components that wait."""
        return [process.name for process in self.spawned if not process.waits]
