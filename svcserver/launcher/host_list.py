"""The list of hosts that the player has joined, in one file without secrets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from attrs import asdict, define, evolve, field, fields, frozen

from svcserver.edge.invite import Invite
from svcserver.kernel import json
from svcserver.launcher.private_files import write_private

MOST_HOSTS = 64
YES, NO = "yes", "no"
_OWN = re.compile(r"[a-z0-9-]{1,80}\Z")


class TooManyHosts(Exception):
    """The error when the list of hosts is full."""


@frozen
class HostRecord:
    """The record of a host in ``hosts.json``: address, certificate, game folder and settings."""

    id: str
    name: str
    host: str
    port: int
    fingerprint: str = ""  # empty for a private host
    next_fingerprint: str = ""
    username: str = ""  # empty until registered
    folder: str = ""  # the folder of the game files; empty: the launcher's own folder
    command: str = ""  # the command that starts the game; empty: the default command
    program: str = ""  # a path below the folder, from the owner's list; empty: the default
    runner: str = ""  # a program in front of the game, such as wine
    speed_limit: int = 0  # bytes per second; 0: no limit
    updates: str = ""  # YES or NO: whether the player takes launcher updates; empty: not asked yet
    content_port: int = 0  # port of a private host's content server

    @property
    def public(self) -> bool:
        """True if the host is public and therefore reached over TLS with a pinned certificate."""
        return bool(self.fingerprint)

    def trusts(self, candidate: HostRecord) -> bool:
        """Return whether this record accepts every certificate that ``candidate`` accepts."""
        known = {self.fingerprint, self.next_fingerprint}
        wanted = {candidate.fingerprint, candidate.next_fingerprint} - {""}
        return self.public == candidate.public and wanted <= known


def id_of(invite: Invite) -> str:
    """Return the id of the host that an invite leads to; see ``id_at``."""
    return id_at(invite.host, invite.port)


def id_at(host: str, port: int) -> str:
    """Return the id of the host at an address; each address has a different id.

    The id is also a folder name, so ``-`` replaces dots and colons. If ``host`` itself contains
    ``-`` or is very long, a hash is added to make the id unique.
    """
    address = f"{host}-{port}"
    plain = re.sub(r"[^a-z0-9]+", "-", address).strip("-")
    if "-" not in host and ".." not in host and len(plain) <= 64:
        return plain
    return f"{plain[-64:].strip('-')}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def joined(invite: Invite, before: HostRecord | None) -> HostRecord:
    """Return the record of the invite's host, with the certificate from the invite.

    Any web page can open an invite, and players recognise a host by its name. So an invite does not
    rename a host on which the player has an account. If the certificate is new, the player is asked
    again whether to take updates of the launcher from this host. All other settings are kept.
    """
    old = before or HostRecord(id_of(invite), invite.name, invite.host, invite.port)
    new = evolve(
        old,
        name=old.name if old.username else invite.name,
        fingerprint=invite.fingerprint,
        next_fingerprint=invite.next_fingerprint,
    )
    return new if old.trusts(new) else evolve(new, updates="")


@define
class HostList:
    """The list of all hosts, saved in ``path``."""

    path: Path
    _known: dict[str, HostRecord] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        try:
            read = json.parse(self.path.read_bytes())
        except FileNotFoundError:
            return
        entries = read.get("hosts", []) if isinstance(read, dict) else []
        for entry in entries[:MOST_HOSTS]:
            record = _record(entry)
            if record is not None:
                self._known[record.id] = record

    def __iter__(self) -> Iterator[HostRecord]:
        return iter(tuple(self._known.values()))

    def get(self, host: str) -> HostRecord | None:
        return self._known.get(host)

    def put(self, record: HostRecord) -> None:
        """Add or replace a host and save the list to disk, or raise TooManyHosts."""
        if record.id not in self._known and len(self._known) >= MOST_HOSTS:
            raise TooManyHosts
        self._known[record.id] = record
        self._write()

    def drop(self, host: str) -> None:
        if self._known.pop(host, None) is not None:
            self._write()

    def _write(self) -> None:
        write_private(
            self.path, json.dump({"hosts": [asdict(record) for record in self._known.values()]})
        )


def _record(raw: object) -> HostRecord | None:
    """Parse an entry of the file; return None if it is not a valid host."""
    if not isinstance(raw, dict):
        return None
    kinds = {
        attribute.name: int if attribute.type in (int, "int") else str
        for attribute in fields(HostRecord)
    }
    known = {name: raw[name] for name, kind in kinds.items() if type(raw.get(name)) is kind}
    if not {"id", "name", "host", "port"} <= known.keys() or not _OWN.match(known["id"]):
        return None
    return HostRecord(**known)
