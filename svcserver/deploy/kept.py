"""What is kept on disk of each running game server, by which the next run adopts it.

One small file for each, readable by us alone. A process counts as the game server only if it
started in the same tick of the kernel's clock as the one that was noted, since the same start of
the machine or with our mark in its environment: its id alone may belong to another by now.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen
from twisted.logger import Logger

from svcserver.deploy.fleet import GameServer
from svcserver.deploy.hunts import Kind, Launch
from svcserver.kernel import json
from svcserver.kernel.processes import PROCESSES, boot_id, started_at

log = Logger()

FORM = 1  # of the files; another is ignored
MOST = 4096  # files that are looked at


@frozen
class Kept:
    """A game server of an earlier run; ``started`` in ticks of the kernel since ``boot``."""

    server: GameServer
    started: int
    boot: str = ""

    def runs(self, mark: str, processes: Path = PROCESSES) -> bool:
        """Whether the process that was noted still runs, and is ours."""
        if started_at(self.server.pid, processes) != self.started:
            return False
        if self.boot and self.boot == boot_id(processes):
            return True  # also one whose launcher cleared its environment
        try:
            environ = (processes / str(self.server.pid) / "environ").read_bytes()
        except OSError:  # it has just ended, or is not ours
            return False
        return mark.encode() in environ.split(b"\0")


@frozen
class KeptServers:
    """The folder that notes running game servers, for a deploy server started anew."""

    folder: Path

    def keep(self, server: GameServer) -> None:
        """Note a game server that has been started."""
        started = started_at(server.pid)
        if started is None:  # where the system does not tell, nothing can be adopted
            return
        said = attrs.asdict(server)
        said["launch"]["kind"] = server.launch.kind.value
        path = self._path(server.id)
        fresh = path.with_suffix(".new")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(
                    json.dump({"form": FORM, "started": started, "boot": boot_id(), "server": said})
                )
            fresh.replace(path)
        except OSError as why:
            text = "{path} cannot be written: {why}; a restart will end this game server"
            log.warn(text, path=str(path), why=why.strerror)

    def forget(self, server_id: str) -> None:
        """Drop the note of a game server that has ended."""
        try:
            self._path(server_id).unlink(missing_ok=True)
        except OSError as why:
            log.debug("{id} stays noted: {why}", id=server_id, why=why.strerror)

    def all(self) -> list[Kept]:
        """Those of the earlier run; what cannot be read is dropped with a line."""
        found = []
        for torn in list(self.folder.glob("*.new"))[:MOST]:  # we died before it had its name
            torn.unlink(missing_ok=True)
        for path in sorted(self.folder.glob("*.json"))[:MOST]:
            try:
                found.append(_read(json.parse(path.read_bytes())))
            except (OSError, ValueError, KeyError, TypeError) as why:
                kind = type(why).__name__
                log.warn("{path} is dropped: {kind}", path=str(path), kind=kind)
                path.unlink(missing_ok=True)
        return found

    def _path(self, server_id: str) -> Path:
        return self.folder / f"{server_id}.json"


def _read(said: Any) -> Kept:
    if said["form"] != FORM:
        raise ValueError("of another form")
    server = dict(said["server"])
    launch = dict(server.pop("launch"))
    kind, players = Kind(launch.pop("kind")), tuple(launch.pop("players"))
    made = GameServer(launch=Launch(kind=kind, players=players, **launch), **server)
    if not (isinstance(made.pid, int) and isinstance(made.port, int) and made.pid > 1):
        raise ValueError("no process")
    return Kept(made, int(said["started"]), str(said.get("boot", "")))
