"""The player's key and passport on a host: the one is renewed, the other saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from svcserver.kernel.secrets import Secret
from svcserver.launcher import accounts, words
from svcserver.launcher.asking import HostClient, Lost
from svcserver.launcher.host_list import HostRecord
from svcserver.launcher.keystore import KeyStore
from svcserver.launcher.private_files import write_private
from svcserver.launcher.stages import Host, Stage

LONGEST_PASSPORT = 64 * 1024 * 1024  # bytes
PASSPORT_S = 300.0  # that a passport may take


class Around(Protocol):
    """What these routes need of the launcher."""

    keys: KeyStore

    def in_thread(self, work: Callable[..., Any], *given: Any) -> Deferred[Any]: ...


class Holder(Protocol):
    """What these routes need of a membership."""

    record: HostRecord
    host: Host
    client: HostClient

    @property
    def around(self) -> Around: ...

    @property
    def key(self) -> Secret | None: ...


def new_key_name(host: str) -> str:
    """Under which a new key is kept until the host has taken it."""
    return f"{host}/new"


def is_renewing(member: Holder) -> bool:
    """Whether a new key was sent, and no answer came."""
    return member.around.keys.get(new_key_name(member.record.id)) is not None


async def renew_key(member: Holder) -> bool:
    """Have the host take a new key; it is kept beside the old one until the host has it.

    Gives whether it has.
    """
    keys, record, old = member.around.keys, member.record, member.key
    if old is None or not record.username:
        return False
    if member.host.stage in (Stage.STARTING, Stage.PLAYING):
        member.host.note = words.RENEW_LATER
        return False
    new = keys.get(new_key_name(record.id)) or accounts.new_key()
    keys.put(new_key_name(record.id), new)
    try:
        await accounts.renew(member.client, old, new)
    except accounts.Refused as why:
        if not await accounts.is_taken(member.client, new):
            member.host.note = str(why)
            return False
    keys.put(record.id, new)
    keys.drop(new_key_name(record.id))
    member.host.note = words.KEY_RENEWED
    return True


async def save_passport(member: Holder, path: Path) -> None:
    """Have the host sign what the player has there, and keep it in ``path``."""
    key = member.key if member.record.username else None
    bounds: Any = {"limit": LONGEST_PASSPORT, "patience_s": PASSPORT_S}
    try:
        reply = await member.client.ask("GET", "/launcher/passport", key=key, **bounds)
        if reply.status != 200 or not isinstance(reply.json, dict):
            member.host.note = words.NO_PASSPORT
            return
        await member.around.in_thread(write_private, path, reply.body)
    except Lost as why:
        member.host.note = accounts.lost(why)
    except OSError as why:
        member.host.note = words.NOT_WRITABLE.format(folder=path.parent, why=why.strerror or why)
    else:
        member.host.note = words.PASSPORT_SAVED.format(path=path)
