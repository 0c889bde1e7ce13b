"""The hosts that the player has joined, in one file without secrets."""

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
_OWN = re.compile(r"[a-z0-9-]{1,80}\Z")


class TooManyHosts(Exception):
    """Raised if the list of hosts is full."""


@frozen
class HostRecord:
    """One host in ``hosts.json``: its address, its certificate, its game folder."""

    id: str
    name: str
    host: str
    port: int
    fingerprint: str = ""  # none for a private host
    next_fingerprint: str = ""
    username: str = ""  # empty until registered
    folder: str = ""  # of its game files; empty: the launcher's own folder
    command: str = ""  # that starts the game; empty: the documented one
    program: str = ""  # a path below the folder, by the owner's list; empty: the usual one
    runner: str = ""  # a program in front of the game, such as wine
    speed_limit: int = 0  # bytes per second; 0: none
    content_port: int = 0  # of a private host's content server

    @property
    def public(self) -> bool:
        """True if it is reached over pinned TLS."""
        return bool(self.fingerprint)

    def trusts(self, candidate: HostRecord) -> bool:
        """Return whether this record accepts each certificate that ``candidate`` accepts."""
        known = {self.fingerprint, self.next_fingerprint}
        wanted = {candidate.fingerprint, candidate.next_fingerprint} - {""}
        return self.public == candidate.public and wanted <= known


def id_of(invite: Invite) -> str:
    """Return the id of an invite's host; all invites to one address have the same."""
    return id_at(invite.host, invite.port)


def id_at(host: str, port: int) -> str:
    """Return the id of the host at that address, unique for each address.

    It names a folder, so it has few kinds of characters. If addresses could collide, a hash is
    added: otherwise an invite to ``a-b.example`` could replace ``a.b.example``.
    """
    address = f"{host}-{port}"
    plain = re.sub(r"[^a-z0-9]+", "-", address).strip("-")
    if "-" not in host and ".." not in host and len(plain) <= 64:
        return plain
    return f"{plain[-64:].strip('-')}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def joined(invite: Invite, before: HostRecord | None) -> HostRecord:
    """Return the record after an invite; the player's settings stay."""
    old = before or HostRecord(id_of(invite), invite.name, invite.host, invite.port)
    return evolve(
        old,
        name=invite.name,
        fingerprint=invite.fingerprint,
        next_fingerprint=invite.next_fingerprint,
    )


@define
class HostList:
    """All hosts, saved in ``path``."""

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
        """Save or replace a host, on disk before it returns; raise TooManyHosts."""
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
    """Parse an entry of the file; return None if it is no host."""
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
