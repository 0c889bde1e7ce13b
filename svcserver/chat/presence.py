"""The presence that friends see outside rooms. Spec: 2 §4 Chat, §6."""

from collections.abc import Iterable
from typing import Protocol

import orjson
from attrs import define, evolve
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.chat.effects import PresenceStatus
from svcserver.chat.ghosts import Ghost
from svcserver.chat.people import People, Person
from svcserver.chat.session import Session
from svcserver.chat.stanza import element_frame
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Blocked, FriendAccepted

FRIEND = "com.epicgames.friends.core.apiobjects.Friend"


def gone(sender: str, receiver: str) -> Element:
    """Return the presence stanza of a session that is offline."""
    return stanza.element(stanza.CLIENT, "presence", type="unavailable", from_=sender, to=receiver)


class Elsewhere(Protocol):
    """The interface through which ``Presences`` reaches the chat's other processes."""

    def send_status(self, session: Session, to: tuple[AccountId, ...]) -> None:
        """Send a session's status to other processes, which show it to the friends in ``to``."""

    def shown(self, account: AccountId) -> list[Ghost]:
        """Return those sessions of the account that have a status and are in other processes."""


@define
class Presences:
    """The sender of statuses to friends; if ``enabled`` is False (CHAT_PRESENCE), nothing is sent.

    Each process notifies its own sessions about friends' sessions in all processes.
    """

    people: People
    enabled: bool
    elsewhere: Elsewhere | None = None

    def announce(self, session: Session, status: PresenceStatus) -> None:
        """Send a session's status to the account's friends.

        The first time, the session is also sent its friends' statuses.
        """
        person = self.people.get(session.account)
        if not self.enabled or session.status == status or person is None:
            return
        first, session.status = session.status is None, status
        audience = self._audience(person)
        for friend, _ in audience:
            friend.deliver(element_frame(status.stanza(session.jid, friend.jid)))
        if self.elsewhere is not None:
            self.elsewhere.send_status(session, tuple(_friends(person)))
        if not first:
            return
        for friend, theirs in audience:
            session.deliver(element_frame(theirs.stanza(friend.jid, session.jid)))
        for account in _friends(person):
            for jid, theirs in self._there(account, person):
                session.deliver(element_frame(theirs.stanza(jid, session.jid)))

    def withdraw(self, session: Session) -> None:
        """Show friends that a session is offline.

        Then send the friends the statuses of the account's other sessions.
        """
        was, session.status, session.waiting_status = session.status, None, None
        person = self.people.get(session.account)
        if not self.enabled or was is None or person is None:
            return
        # other processes drop the status of an ended session by themselves
        if self.elsewhere is not None and not session.ended:
            self.elsewhere.send_status(session, ())
        audience = self._audience(person)
        for receiver, _ in audience:
            receiver.deliver(element_frame(gone(session.jid, receiver.jid)))
        for receiver, _ in audience:
            friend = self.people.get(receiver.account)
            if friend is not None:
                self._send_statuses(self._statuses(person.account, friend), [receiver])

    def changed(self, ghost: Ghost, status: PresenceStatus | None, to: Iterable[AccountId]) -> None:
        """Handle a new status of another process's session: show it to the accounts in ``to``.

        If ``status`` is None, the session is offline, and everyone who saw its last status is
        notified.
        """
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
                self._send_statuses([(ghost.jid, status)], _receivers(person))
                continue
            for session in _receivers(person):
                session.deliver(element_frame(gone(ghost.jid, session.jid)))
            self._send_statuses(self._statuses(ghost.account, person), _receivers(person))

    def restate(self, changes: list[tuple[Ghost, PresenceStatus | None]]) -> None:
        """Correct the statuses of other processes' sessions.

        New statuses are shown to the friends who are online in this process.
        """
        new = {ghost.account for ghost, status in changes if status is not None}
        concerned: dict[AccountId, list[AccountId]] = {}
        for person in self.people.all() if new and self.enabled else ():
            for account in new & person.about.friends:
                concerned.setdefault(account, []).append(person.account)
        for ghost, status in changes:
            self.changed(ghost, status, concerned.get(ghost.account, ()))

    def befriend(self, news: FriendAccepted, stamp: str) -> None:
        """Notify both accounts of a new friendship, then send each the status of its new friend."""
        if not self.enabled:
            return
        requester, accepted = self.people.get(news.asked), self.people.get(news.accepted_by)
        if accepted is not None:
            _push(accepted, news.asked, "INBOUND", news.created, stamp)
        if requester is not None:
            _push(requester, news.accepted_by, "OUTBOUND", news.created, stamp)
        for account, person in ((news.asked, accepted), (news.accepted_by, requester)):
            if person is not None:
                self._send_statuses(self._statuses(account, person), _receivers(person))

    def part(self, first: AccountId, second: AccountId) -> None:
        """Show two former friends to each other as offline."""
        if not self.enabled:
            return
        for account, receiver in ((first, second), (second, first)):
            person = self.people.get(receiver)
            if person is None:
                continue
            for jid, _ in self._statuses(account, person):
                for session in _receivers(person):
                    session.deliver(element_frame(gone(jid, session.jid)))
            for ghost in self.elsewhere.shown(account) if self.elsewhere is not None else ():
                ghost.shown_to -= {receiver}

    def _audience(self, person: Person) -> list[tuple[Session, PresenceStatus]]:
        """Return the friends' sessions in this process, except those without a status.

        Friends who block the person, or whom the person blocks, are left out.
        """
        audience: list[tuple[Session, PresenceStatus]] = []
        for account in _friends(person):
            friend = self.people.get(account)
            if friend is not None:
                audience += _announced(friend)
        return audience

    def _statuses(self, account: AccountId, receiver: Person) -> list[tuple[str, PresenceStatus]]:
        """Return (jid, status) for each of the account's sessions with a status.

        For a session in another process, record whom to notify when the session goes offline.
        """
        person = self.people.get(account)
        here = [] if person is None else _announced(person)
        return [(session.jid, status) for session, status in here] + self._there(account, receiver)

    def _there(self, account: AccountId, receiver: Person) -> list[tuple[str, PresenceStatus]]:
        statuses: list[tuple[str, PresenceStatus]] = []
        for ghost in self.elsewhere.shown(account) if self.elsewhere is not None else ():
            if ghost.status is not None:
                ghost.shown_to |= {receiver.account}
                statuses.append((ghost.jid, ghost.status))
        return statuses

    def _send_statuses(
        self, statuses: list[tuple[str, PresenceStatus]], receivers: list[Session]
    ) -> None:
        for jid, status in statuses:
            for session in receivers:
                session.deliver(element_frame(status.stanza(jid, session.jid)))


def _friends(person: Person) -> list[AccountId]:
    """Return the friends who may see the person's status: neither side blocks the other."""
    return [account for account in sorted(person.about.friends) if _sees(person, account)]


def _sees(person: Person, account: AccountId) -> bool:
    about = person.about
    strange = account.lower() == person.account.lower() or about.has_block_with(account)
    return account in about.friends and not strange


def _announced(person: Person) -> list[tuple[Session, PresenceStatus]]:
    return [(session, session.status) for session in person.bound if session.status is not None]


def _receivers(person: Person) -> list[Session]:
    """Return the person's sessions with a status; only they receive friends' statuses."""
    return [session for session, _ in _announced(person)]


def _push(person: Person, friend: AccountId, direction: str, created: str, stamp: str) -> None:
    payload = {
        "accountId": friend,
        "status": "ACCEPTED",
        "direction": direction,
        "created": created,
    }
    body = orjson.dumps({"type": FRIEND, "payload": payload, "timestamp": stamp}).decode()
    for session in person.bound:
        notification = stanza.element(
            stanza.CLIENT,
            "message",
            stanza.element(None, "body", body),
            from_=f"xmpp-admin@{session.domain}",
            to=session.jid,
        )
        session.deliver(element_frame(notification))


@define
class Friendships:
    """Starts and ends friendships: changes the data of both accounts, and notifies both."""

    people: People
    presences: Presences

    def begin(self, news: FriendAccepted, stamp: str) -> None:
        """Make two accounts friends and show each the other's status."""
        self._befriend(news.asked, news.accepted_by)
        self._befriend(news.accepted_by, news.asked)
        self.presences.befriend(news, stamp)

    def end(self, first: AccountId, second: AccountId) -> None:
        """End a friendship and notify both accounts; does nothing if they are not friends."""
        # not ``or``: both must be updated
        if self._unfriend(first, second) | self._unfriend(second, first):
            self.presences.part(first, second)

    def block(self, news: Blocked) -> None:
        """Block an account and end the friendship."""
        self.end(news.by, news.whom)
        if (by := self.people.get(news.by)) is not None:
            by.change(evolve(by.about, blocks=by.about.blocks | {news.whom}))
        if (whom := self.people.get(news.whom)) is not None:
            whom.change(evolve(whom.about, blocked_by=whom.about.blocked_by | {news.by}))

    def _unfriend(self, account: AccountId, friend: AccountId) -> bool:
        """Remove a friend; returns whether they were friends."""
        person = self.people.get(account)
        if person is None:
            return False
        friends = person.about.friends
        person.change(evolve(person.about, friends=friends - {friend}))
        return friend in friends

    def _befriend(self, account: AccountId, friend: AccountId) -> None:
        if (person := self.people.get(account)) is not None:
            about = person.about
            # a request cannot be accepted despite a block, so a block still known here was lifted
            person.change(
                evolve(
                    about,
                    friends=about.friends | {friend},
                    blocks=about.blocks - {friend},
                    blocked_by=about.blocked_by - {friend},
                )
            )
