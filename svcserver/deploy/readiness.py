"""The wait until a game server is ready; off by default. Spec: 2 §4 Deploy server, lifecycle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.task import deferLater

from svcserver.deploy.hunts import GameServerKind, Unlaunchable
from svcserver.deploy.process import GameProcess
from svcserver.kernel.system import token_hex

POLL_S = 0.2
TIMEOUT_S = 90.0
VARIABLE = "SVC_SERVER_READY_FILE"


@frozen
class Readiness:
    """The rule that decides when a started game server counts as ready.

    With ``folder``, the game server must write a file there once it listens. Without ``folder``, a
    hunt's game server must run for ``grace()`` seconds; others are ready at once. The launch fails
    if ``grace`` raises ValueError.
    """

    clock: Any
    folder: Path | None = None
    grace: Callable[[], float] = lambda: 0.0

    def prepare(self) -> tuple[Path | None, dict[str, str]]:
        """Choose the path of the readiness file; return it as a path and an environment variable.

        Raises Unlaunchable if the folder does not exist.
        """
        if self.folder is None:
            return None, {}
        if not self.folder.is_dir():
            raise Unlaunchable(f"GAMESERVER_READY_DIR {self.folder} must be a folder that exists")
        proof = self.folder / token_hex(16)
        return proof, {VARIABLE: str(proof)}

    async def wait(
        self, process: GameProcess, port: int, kind: GameServerKind, proof: Path | None
    ) -> None:
        """Wait until the game server is ready; raises Unlaunchable if it ends or takes too long."""
        if proof is not None:
            await self._wait_for_proof(process, port, proof)
        elif kind is GameServerKind.HUNT:
            await self._wait_for_grace(process)

    async def _wait_for_proof(self, process: GameProcess, port: int, proof: Path) -> None:
        deadline = self.clock.seconds() + TIMEOUT_S
        try:
            while not _is_ready(_content(proof), process, port):
                if not process.alive:
                    raise Unlaunchable("the game server exited before it was ready")
                if self.clock.seconds() >= deadline:
                    raise Unlaunchable("the game server was not ready within 90 s")
                await deferLater(self.clock, POLL_S)
        finally:
            _delete(proof)

    async def _wait_for_grace(self, process: GameProcess) -> None:
        try:
            wait = self.grace()
        except ValueError as error:
            raise Unlaunchable(f"GAMESERVER_STARTUP_GRACE_MS {error}") from error
        deadline = self.clock.seconds() + wait
        while (left := deadline - self.clock.seconds()) > 0:
            await deferLater(self.clock, min(left, POLL_S))
            if not process.alive:
                raise Unlaunchable("the game server exited before it was ready")


def _is_ready(proof: str, process: GameProcess, port: int) -> bool:
    """Return whether the text ``proof`` names the port and a process of the game server."""
    pid, _, number = proof.partition(":")
    return pid.isdigit() and number == str(port) and process.has(int(pid))


def _content(proof: Path) -> str:
    try:
        return proof.read_text()[:64]
    except (OSError, UnicodeDecodeError):
        return ""


def _delete(proof: Path) -> None:
    proof.unlink(missing_ok=True)
