"""The kinds of rooms, in a table. Spec: 2 §4 Chat, rooms.

A new kind is a row here, and, where not everybody may enter, a method of
``ports.Memberships`` that gives an account's room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from svcserver.chat.ports import About, Memberships
from svcserver.kernel.ids import AccountId

Mine = Callable[[Memberships, AccountId, About], str | None]


@frozen
class Kind:
    """How rooms of a kind are named, and who may enter.

    ``mine`` gives the id of the one room of the kind that an account may enter; without it
    all are open to everyone. ``read`` marks a ``mine`` that uses the cached ``About``: it is
    re-read before anybody is refused.
    """

    mine: Mine | None = None
    read: bool = False
    hyphen: bool = True  # between kind and id; without it the id may be missing


KINDS: Mapping[str, Kind] = {
    "City": Kind(),
    "Hunt": Kind(),
    "General": Kind(hyphen=False),
    "Party": Kind(lambda memberships, account, about: memberships.party_of(account)),
    "Guild": Kind(lambda memberships, account, about: about.guild, read=True),
}
