"""The table of room kinds. Spec: 2 §4 Chat, rooms.

To add a kind, add a row. If the kind restricts who may enter, the row has a rule. A rule about
state in memory calls ``ports.Memberships``. A rule about stored data reads ``About.rooms``.
"""

from collections.abc import Callable, Mapping

from attrs import frozen

from svcserver.chat.ports import About, Memberships
from svcserver.kernel.ids import AccountId

MayEnter = Callable[[Memberships, AccountId, About, str], bool]
"""The rule that decides whether an account may be in the room with this id."""


@frozen
class RoomKind:
    """A kind of room: its room names, and the rule that decides who may enter.

    Without ``may_enter``, everyone may enter rooms of the kind. ``by_about`` is True if the rule
    uses the account's ``About``. Those data may be a second old, so they are read again before a
    refusal.
    """

    may_enter: MayEnter | None = None
    by_about: bool = False
    hyphen: bool = True  # between kind and id; without it the id may be missing


KINDS: Mapping[str, RoomKind] = {
    "City": RoomKind(),
    "Hunt": RoomKind(),
    "General": RoomKind(hyphen=False),
    "Party": RoomKind(lambda memberships, account, _, room: memberships.party_of(account) == room),
    "Guild": RoomKind(
        lambda _, account, about, room: ("Guild", room) in about.rooms, by_about=True
    ),
}
