"""The syntax of domains, resources, room names and nicknames. Spec: 2 §4 Chat."""

import re
from urllib.parse import unquote_to_bytes

from attrs import frozen

from svcserver.chat.kinds import KINDS
from svcserver.kernel.ids import AccountId
from svcserver.kernel.redaction import printable as _printable

MAX_RESOURCE = 256  # characters
MAX_NICKNAME = 1023  # bytes
MAX_LOGGED = 80  # characters of a name in a log line
NAMELESS = "InvalidMCPUser"  # the client's nickname until it knows the player's

_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}))*\.?)"
_DOMAIN = re.compile(rf"(?:{_HOST}|\[[0-9A-Fa-f:.]{{2,45}}\])(?::[0-9]{{1,5}})?\Z")
_HYPHEN = "|".join(name for name, kind in KINDS.items() if kind.hyphen)
_PLAIN = "|".join(name for name, kind in KINDS.items() if not kind.hyphen)
_ROOM = re.compile(
    rf"(?:(?P<kind>{_HYPHEN})-(?P<id>[A-Za-z0-9-]{{1,64}})|(?P<plain>{_PLAIN})"
    r"[A-Za-z0-9-]{0,64})\Z"
)
_NAME = re.compile(r"(?:[A-Za-z0-9\-_.~]|%[0-9A-Fa-f]{2})*\Z")
_OTHER_ID = re.compile(r"UID-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


@frozen
class Room:
    """A room: its ``local@host`` address as the client sent it, and its ``kind`` (from KINDS)."""

    address: str
    kind: str
    id: str
    key: str  # the same for everyone: players reach one room under different domains


def is_domain(text: str) -> bool:
    """Return whether the text is a host name or IP address, with or without a port."""
    return len(text) <= 253 and _DOMAIN.match(text) is not None


def is_resource(text: str) -> bool:
    """Return whether the text is a valid XMPP resource."""
    return 0 < len(text) <= MAX_RESOURCE and text.isprintable()


def printable(text: str) -> str:
    """Return text from a client in a form that is safe for a log line."""
    return _printable(text, MAX_LOGGED)


def split_address(text: str) -> tuple[str, str, str]:
    """Return the local part, domain and resource of an address; each can be empty."""
    bare, _, resource = text.partition("/")
    local, at, domain = bare.rpartition("@")
    return (local, domain, resource) if at else ("", bare, resource)


def is_room_host(host: str, domain: str) -> bool:
    """Return whether ``host`` is ``muc.`` or ``conference.``, followed by ``domain``.

    The letter case is ignored.
    """
    wanted = domain.lower()
    return host.lower() in (f"muc.{wanted}", f"conference.{wanted}")


def room_of(local: str, host: str, domain: str) -> Room | None:
    """Return the room at an address, or None if the game client never builds such an address."""
    if not is_room_host(host, domain):
        return None
    match = _ROOM.match(local)
    if match is None:
        return None
    alias = host.partition(".")[0].lower()
    kind = match["kind"] or match["plain"]
    return Room(f"{local}@{host}", kind, match["id"] or "", f"{local}@{alias}")


def nickname_fault(
    nickname: str, account: AccountId, resource: str, names: frozenset[str]
) -> str | None:
    """Return the fault of a player's nickname, as a word for the log, or None if there is none.

    A nickname is ``<name>:<account>:<resource>``. It is split at the first two colons, because a
    resource contains colons itself. ``names`` are the names that the account may use.
    """
    if not nickname or len(nickname.encode()) > MAX_NICKNAME:
        return "nick-format"
    name, _, rest = nickname.partition(":")
    held_by, _, held_resource = rest.partition(":")
    if held_by.lower() != account.lower():
        return "nick-account"
    if any(other_id.lower() != account.lower() for other_id in _OTHER_ID.findall(nickname)):
        return "nick-account"
    if held_resource != resource:
        return "nick-resource"
    if not _NAME.match(name):
        return "nick-format"
    try:
        decoded = unquote_to_bytes(name).decode("utf-8")
    except UnicodeDecodeError:
        return "nick-format"
    if decoded not in names and decoded != NAMELESS:
        return "nick-name"
    return None
