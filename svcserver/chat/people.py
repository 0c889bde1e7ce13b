"""The accounts that are online, with their sessions and the data last read about them."""

from attrs import define, field

from svcserver.chat.kinds import KINDS
from svcserver.chat.names import Room
from svcserver.chat.ports import About, Memberships
from svcserver.chat.session import Session
from svcserver.kernel.ids import AccountId


@define(eq=False)
class Person:
    """An account with at least one connection that has logged in.

    ``about`` was read at ``read_at`` (clock seconds). ``version`` counts the signals that have
    changed ``about``. If the game answers a request that was sent before such a signal, the answer
    is discarded. ``readings`` counts the requests sent to the game. ``about_number`` is the number
    of the request that returned ``about``.
    """

    account: AccountId
    about: About
    read_at: float
    sessions: list[Session] = field(factory=list)
    version: int = 0
    readings: int = 0
    about_number: int = 0

    @property
    def bound(self) -> list[Session]:
        """Return the sessions that have bound a resource, oldest first."""
        return [session for session in self.sessions if session.bound]

    @property
    def networks(self) -> frozenset[str]:
        """Return the networks of the sessions that use the gateway."""
        return frozenset(session.network for session in self.sessions if session.network)

    def may_write(self, session: Session) -> bool:
        """Return True if neither the account nor the session's network is muted."""
        return not self.about.muted and session.network not in self.about.muted_from

    def change(self, about: About) -> None:
        """Replace ``about`` after a signal that the account's data have changed."""
        self.about = about
        self.version += 1


@define
class People:
    """Everyone online; ``find`` ignores letter case, because clients may lower-case account ids."""

    memberships: Memberships
    _people: dict[AccountId, Person] = field(factory=dict, init=False)
    _lower: dict[str, Person] = field(factory=dict, init=False)

    def get(self, account: AccountId) -> Person | None:
        """Return the person with exactly this account id, or None if they are offline."""
        return self._people.get(account)

    def find(self, account: str) -> Person | None:
        """Return the person with this account id in any letter case, or None if offline."""
        return self._people.get(account) or self._lower.get(account.lower())

    def arrive(self, account: AccountId, about: About, now: float) -> Person:
        """Return the account's ``Person``; only if there is none, create it with ``about``."""
        person = self._people.get(account)
        if person is None:
            person = self._people[account] = Person(account, about, now)
            self._lower[account.lower()] = person
        return person

    def drop(self, person: Person) -> None:
        """Forget the person if they have no sessions left."""
        if not person.sessions and self._people.get(person.account) is person:
            del self._people[person.account]
            if self._lower.get(person.account.lower()) is person:
                del self._lower[person.account.lower()]

    def all(self) -> list[Person]:
        return list(self._people.values())

    def member(self, person: Person, room: Room) -> bool:
        """Return whether the account may be in the room. Spec: 2 §4 Chat, rooms."""
        may = KINDS[room.kind].may_enter
        return may is None or may(self.memberships, person.account, person.about, room.id)

    def __len__(self) -> int:
        return len(self._people)
