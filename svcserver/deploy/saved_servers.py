"""Files that record the running game servers, so that the next deploy server can adopt them.

There is one small file for each server, readable only by its owner. A process is adopted only if
it has the recorded pid and start time, because another process may have the pid by now. If the
machine may have been restarted since the file was written, the environment of the process must
also contain the deploy server's mark (``orphans.mark``).
"""

import os
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen
from twisted.logger import Logger

from svcserver.deploy.fleet import GameServer
from svcserver.deploy.hunts import GameServerKind, Launch
from svcserver.kernel import json
from svcserver.kernel.processes import PROCESSES, boot_id, started_at

log = Logger()

FORM = 1  # version of the files; other versions are ignored
MOST = 4096  # maximum number of files that are read


@frozen
class SavedServer:
    """A saved game server.

    ``started`` is when its process started, in kernel ticks after the start of the machine.
    ``boot`` is the kernel's boot id.
    """

    server: GameServer
    started: int
    boot: str = ""

    def is_running(self, mark: str, processes: Path = PROCESSES) -> bool:
        """Return whether the recorded process runs; a later process with its pid does not count."""
        if started_at(self.server.pid, processes) != self.started:
            return False
        if self.boot and self.boot == boot_id(processes):
            return True  # even if its launcher cleared its environment
        try:
            environ = (processes / str(self.server.pid) / "environ").read_bytes()
        except OSError:  # it has just ended, or is not ours
            return False
        return mark.encode() in environ.split(b"\0")


@frozen
class SavedServers:
    """The folder with a record of each running game server."""

    folder: Path

    def save(self, server: GameServer) -> None:
        """Record a game server that has been started."""
        started = started_at(server.pid)
        if started is None:  # where the system does not show it, nothing can be adopted
            return
        record = {"form": FORM, "started": started, "boot": boot_id(), "server": fields_of(server)}
        path = self._path(server.id)
        temporary = path.with_suffix(".new")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(json.dump(record))
            temporary.replace(path)
        except OSError as error:
            text = "{path} cannot be written: {why}; a restart will end this game server"
            log.warn(text, path=str(path), why=error.strerror)

    def delete(self, server_id: str) -> None:
        """Delete the record of a game server that has ended."""
        try:
            self._path(server_id).unlink(missing_ok=True)
        except OSError as error:
            log.debug(
                "the record of {id} cannot be deleted: {why}", id=server_id, why=error.strerror
            )

    def load_all(self) -> list[SavedServer]:
        """Return all saved records; log and delete those that cannot be read."""
        records = []
        for torn in list(self.folder.glob("*.new"))[:MOST]:  # left by a crash before the renaming
            torn.unlink(missing_ok=True)
        for path in sorted(self.folder.glob("*.json"))[:MOST]:
            try:
                records.append(_parse(json.parse(path.read_bytes())))
            except (OSError, ValueError, KeyError, TypeError) as error:
                kind = type(error).__name__
                text = "{path} is damaged or cannot be read, so it is deleted: {kind}"
                log.warn(text, path=str(path), kind=kind)
                path.unlink(missing_ok=True)
        return records

    def _path(self, server_id: str) -> Path:
        return self.folder / f"{server_id}.json"


def fields_of(server: GameServer) -> dict[str, Any]:
    """Return the server's fields as a dict that can be written as JSON."""
    fields = attrs.asdict(server)
    fields["launch"]["kind"] = server.launch.kind.value
    return fields


def server_from(sent: Any) -> GameServer:
    """Return the server with these fields.

    Raises ValueError, KeyError or TypeError if the fields are not valid.
    """
    fields = dict(sent)
    launch = dict(fields.pop("launch"))
    kind, players = GameServerKind(launch.pop("kind")), tuple(launch.pop("players"))
    server = GameServer(launch=Launch(kind=kind, players=players, **launch), **fields)
    if not (isinstance(server.pid, int) and isinstance(server.port, int)):
        raise ValueError("the pid or the port is not a number")
    return server


def _parse(record: Any) -> SavedServer:
    if record["form"] != FORM:
        raise ValueError("the file has an unknown format")
    server = server_from(record["server"])
    if server.pid <= 1:
        raise ValueError("no process")
    return SavedServer(server, int(record["started"]), str(record.get("boot", "")))
