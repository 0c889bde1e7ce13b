"""The game-server program, and the launch orders that a ``supervisor.Engine`` carries out."""

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from svcserver.deploy.fleet import GameServer
from svcserver.deploy.hunts import Launch
from svcserver.kernel.secrets import Secret, fingerprint

KEYLESS = "NO_KEY"


@frozen
class Program:
    """The game-server program, and the arguments that every launch passes to it.

    The command line, including its key, is visible in the machine's process list. With
    ``launch_keys``, each launch therefore gets a key of its own, which is valid only while the
    launched process runs. Otherwise all launches get ``key``.
    """

    binary: str
    launcher: tuple[str, ...] = ()
    extra: tuple[str, ...] = ("-server", "-nullrhi")
    key: Secret | None = None
    output: Path | None = None  # folder of the output files
    launch_keys: bool = False

    def command(self, launch: Launch, port: int, host: str, key: str) -> list[str]:
        """Return the command line of a launch."""
        return [*self.launcher, self.binary, key, *launch.arguments(port, host), *self.extra]


@frozen
class Order:
    """A launch that an engine carries out; ``environ`` is added to the program's environment."""

    server_id: str
    launch: Launch
    port: int
    program: Program
    host: str  # the address that players connect to; empty if the engine chooses the machine
    started_at: float  # epoch seconds
    launch_key: Secret | None = None
    environ: Mapping[str, str] = field(factory=dict)

    @property
    def key(self) -> str:
        """The key that the game server sends to the metagame."""
        key = self.launch_key or self.program.key
        return KEYLESS if key is None else key.reveal()

    def command(self) -> list[str]:
        """Return the command line, with the key."""
        return self.program.command(self.launch, self.port, self.host, self.key)

    def server(self, pid: int) -> GameServer:
        """Return the record of the launched game server."""
        key_hash = "" if self.launch_key is None else fingerprint(self.launch_key.reveal())
        return GameServer(self.server_id, self.port, self.launch, pid, self.started_at, key_hash)
