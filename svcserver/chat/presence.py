"""Presence between friends, outside rooms. Spec: 2 §4 Chat, §6."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import orjson
from attrs import define
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.chat.frames import element_frame
from svcserver.chat.ghosts import Ghost
from svcserver.chat.people import People, Person
from svcserver.chat.session import Session
from svcserver.chat.status import Status
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import FriendAccepted

FRIEND = "com.epicgames.friends.core.apiobjects.Friend"


def gone(sender: str, receiver: str) -> Element:
    """Make the presence that tells that a session is offline."""
    return stanza.element(stanza.CLIENT, "presence", type="unavailable", from_=sender, to=receiver)


class Elsewhere(Protocol):
    """What presences ask of the chat's other processes; in one process there are none."""

    def show(self, session: Session, to: tuple[AccountId, ...]) -> None:
        """Tell the others the status of a session here, for these friends; None: it has none."""

    def shown(self, account: AccountId) -> list[Ghost]:
        """The account's sessions there that have a status."""


@define
class Presences:
    """Sends presences between sessions of friends; does nothing unless CHAT_PRESENCE=1.

    Each process tells those who are in it, of sessions here and elsewhere.
    """

    people: People
    enabled: bool
    elsewhere: Elsewhere | None = None

    def announce(self, session: Session, status: Status) -> None:
        """Tell friends a session's status; the first time send it theirs, too."""
        person = self.people.get(session.account)
        if not self.enabled or session.status == status or person is None:
            return
        first, session.status = session.status is None, status
        audience = self._audience(person)
        for other, _ in audience:
            other.deliver(element_frame(status.stanza(session.jid, other.jid)))
        if self.elsewhere is not None:
            self.elsewhere.show(session, tuple(_friends(person)))
        if not first:
            return
        for other, theirs in audience:
            session.deliver(element_frame(theirs.stanza(other.jid, session.jid)))
        for account in _friends(person):
            for jid, theirs in self._there(account, person):
                session.deliver(element_frame(theirs.stanza(jid, session.jid)))

    def withdraw(self, session: Session) -> None:
        """Tell friends that a session is offline, then the status of the other session, if any."""
        was, session.status, session.waiting_status = session.status, None, None
        person = self.people.get(session.account)
        if not self.enabled or was is None or person is None:
            return
        if self.elsewhere is not None and not session.ended:  # that of an ended one they forget
            self.elsewhere.show(session, ())
        audience = self._audience(person)
        for other, _ in audience:
            other.deliver(element_frame(gone(session.jid, other.jid)))
        for other, _ in audience:
            friend = self.people.get(other.account)
            if friend is not None:
                self._tell(self._statuses(person.account, friend), [other])

    def changed(self, ghost: Ghost, status: Status | None, to: Iterable[AccountId]) -> None:
        """A session elsewhere shows the accounts ``to`` a status; without one it is offline."""
        before, ghost.status = ghost.status, status
        if not self.enabled or before == status:
            return
        if status is None:
            to, ghost.shown_to = ghost.shown_to, frozenset()
        for account in sorted(to):
            person = self.people.get(account)
            if person is None or not _sees(person, ghost.account):
                continue
            if status is not None:
                ghost.shown_to |= {account}
                self._tell([(ghost.jid, status)], _heard_by(person))
                continue
            for other in _heard_by(person):
                other.deliver(element_frame(gone(ghost.jid, other.jid)))
            self._tell(self._statuses(ghost.account, person), _heard_by(person))

    def restate(self, changes: list[tuple[Ghost, Status | None]]) -> None:
        """Sessions elsewhere have other statuses than we knew: nobody could tell whom it concerns.

        Looks at all people here once, where any status is new.
        """
        new = {ghost.account for ghost, status in changes if status is not None}
        concerned: dict[AccountId, list[AccountId]] = {}
        for person in self.people.all() if new and self.enabled else ():
            for account in new & person.about.friends:
                concerned.setdefault(account, []).append(person.account)
        for ghost, status in changes:
            self.changed(ghost, status, concerned.get(ghost.account, ()))

    def befriend(self, news: FriendAccepted, stamp: str) -> None:
        """Tell both of an accepted request, then each the other's status."""
        if not self.enabled:
            return
        asked, accepted = self.people.get(news.asked), self.people.get(news.accepted_by)
        if accepted is not None:
            _push(accepted, news.asked, "INBOUND", news.created, stamp)
        if asked is not None:
            _push(asked, news.accepted_by, "OUTBOUND", news.created, stamp)
        for account, person in ((news.asked, accepted), (news.accepted_by, asked)):
            if person is not None:
                self._tell(self._statuses(account, person), _heard_by(person))

    def part(self, one: AccountId, other: AccountId) -> None:
        """Tell two accounts that are no longer friends that the other is offline."""
        if not self.enabled:
            return
        for account, receiver in ((one, other), (other, one)):
            person = self.people.get(receiver)
            if person is None:
                continue
            for jid, _ in self._statuses(account, person):
                for session in _heard_by(person):
                    session.deliver(element_frame(gone(jid, session.jid)))
            for ghost in self.elsewhere.shown(account) if self.elsewhere is not None else ():
                ghost.shown_to -= {receiver}

    def _audience(self, person: Person) -> list[tuple[Session, Status]]:
        """The sessions here, with status, of friends without a block between."""
        found: list[tuple[Session, Status]] = []
        for account in _friends(person):
            friend = self.people.get(account)
            if friend is not None:
                found += _announced(friend)
        return found

    def _statuses(self, account: AccountId, receiver: Person) -> list[tuple[str, Status]]:
        """What the receiver is to be sent of an account: the statuses of its sessions, by jid."""
        person = self.people.get(account)
        here = [] if person is None else _announced(person)
        return [(one.jid, status) for one, status in here] + self._there(account, receiver)

    def _there(self, account: AccountId, receiver: Person) -> list[tuple[str, Status]]:
        found: list[tuple[str, Status]] = []
        for ghost in self.elsewhere.shown(account) if self.elsewhere is not None else ():
            if ghost.status is not None:
                ghost.shown_to |= {receiver.account}
                found.append((ghost.jid, ghost.status))
        return found

    def _tell(self, statuses: list[tuple[str, Status]], receivers: list[Session]) -> None:
        for jid, status in statuses:
            for other in receivers:
                other.deliver(element_frame(status.stanza(jid, other.jid)))


def _friends(person: Person) -> list[AccountId]:
    """The accounts that see the person's status: friends without a block between."""
    return [one for one in sorted(person.about.friends) if _sees(person, one)]


def _sees(person: Person, other: AccountId) -> bool:
    about = person.about
    strange = other.lower() == person.account.lower() or about.apart_from(other)
    return other in about.friends and not strange


def _announced(person: Person) -> list[tuple[Session, Status]]:
    """The person's sessions that have sent a status, with it."""
    return [(one, one.status) for one in person.bound if one.status is not None]


def _heard_by(person: Person) -> list[Session]:
    """The person's sessions that are sent what friends show: those that have shown something."""
    return [one for one, _ in _announced(person)]


def _push(person: Person, other: AccountId, direction: str, created: str, stamp: str) -> None:
    payload = {
        "accountId": other,
        "status": "ACCEPTED",
        "direction": direction,
        "created": created,
    }
    body = orjson.dumps({"type": FRIEND, "payload": payload, "timestamp": stamp}).decode()
    for session in person.bound:
        said = stanza.element(
            stanza.CLIENT,
            "message",
            stanza.element(None, "body", body),
            from_=f"xmpp-admin@{session.domain}",
            to=session.jid,
        )
        session.deliver(element_frame(said))
