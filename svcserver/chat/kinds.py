"""The table of room kinds. Spec: 2 §4 Chat, rooms.

A new kind is a row here. If not everybody may enter, its row uses a method of
``ports.Memberships`` for state in memory, or a member of ``ports.About`` for data in the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from svcserver.chat.ports import About, Memberships
from svcserver.kernel.ids import AccountId

MayEnter = Callable[[Memberships, AccountId, About, str], bool]
"""Whether an account may be in the room with this id."""


@frozen
class RoomKind:
    """The names of a kind of rooms and who may enter.

    Without ``may_enter`` every room of the kind is open to everyone. ``by_about`` marks a rule on
    the account's ``About``, which may be a second old and is read again before a refusal.
    """

    may_enter: MayEnter | None = None
    by_about: bool = False
    hyphen: bool = True  # between kind and id; without it the id may be missing


KINDS: Mapping[str, RoomKind] = {
    "City": RoomKind(),
    "Hunt": RoomKind(),
    "General": RoomKind(hyphen=False),
    "Party": RoomKind(lambda memberships, account, _, room: memberships.party_of(account) == room),
    "Guild": RoomKind(lambda _, account, about, room: about.guild == room, by_about=True),
}
