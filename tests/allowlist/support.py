"""A clock that records the processes that it is asked to spawn."""

from typing import Any

from attrs import define, field
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure

SECRET = "s" * 40


@define(eq=False)
class FakeProcess:
    """A fake process; the test decides when it ends."""

    protocol: Any
    argv: list[str]
    env: dict[str, str]
    script: str = ""
    stdin_closed: bool = False
    killed: bool = False
    pid: int | None = 4711

    def write(self, data: bytes) -> None:
        self.script += data.decode()

    def closeStdin(self) -> None:
        self.stdin_closed = True

    def signalProcess(self, signal: str) -> None:
        self.killed = signal == "KILL"

    def end(self, code: int = 0, *, out: str = "", err: str = "") -> None:
        if out:
            self.protocol.childDataReceived(1, out.encode())
        if err:
            self.protocol.childDataReceived(2, err.encode())
        self.pid = None
        why = ProcessDone(0) if code == 0 else ProcessTerminated(code)
        self.protocol.processEnded(Failure(why))


@define(eq=False, slots=False)
class FakeSpawner(Clock):
    """A clock that records spawned processes.

    If ``by_itself`` is true, each process ends immediately. ``listings`` maps command lines to the
    output of their processes.
    """

    spawned: list[FakeProcess] = field(factory=list)
    by_itself: bool = False
    listings: dict[str, str] = field(factory=dict)
    refuse: OSError | None = None
    looks: int = 0  # checks of our own table, which are answered immediately
    flushed: bool = False

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def spawnProcess(self, protocol: Any, executable: str, args: Any, env: Any) -> FakeProcess:
        assert executable == args[0]
        if self.refuse is not None:
            raise self.refuse
        process = FakeProcess(protocol, list(args), env)
        if list(args[1:3]) == ["list", "table"]:
            self.looks += 1
            protocol.makeConnection(process)
            process.end(1 if self.flushed else 0)
            return process
        self.spawned.append(process)
        protocol.makeConnection(process)
        if self.by_itself:
            process.end(out=self.listings.get(" ".join(args), ""))
        return process
