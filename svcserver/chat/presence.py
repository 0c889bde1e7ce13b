"""Presence between friends, outside rooms. Spec: 2 §4 Chat, §6."""

from __future__ import annotations

import orjson
from attrs import define

from svcserver.chat import stanza
from svcserver.chat.frames import text_frame
from svcserver.chat.people import People, Person
from svcserver.chat.session import Session
from svcserver.chat.status import Status
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import FriendAccepted

FRIEND = "com.epicgames.friends.core.apiobjects.Friend"


def gone(sender: str, receiver: str) -> str:
    """The stanza that tells that a session is offline."""
    return stanza.element(
        "presence", xmlns=stanza.CLIENT, type="unavailable", from_=sender, to=receiver
    )


@define
class Presences:
    """Sends presences between sessions of friends; does nothing unless CHAT_PRESENCE=1."""

    people: People
    enabled: bool

    def announce(self, session: Session, status: Status) -> None:
        """Tell friends a session's status; the first time send it theirs, too."""
        person = self.people.get(session.account)
        if not self.enabled or session.status == status or person is None:
            return
        first, session.status = session.status is None, status
        audience = self._audience(person)
        for other, _ in audience:
            other.deliver(text_frame(status.stanza(session.jid, other.jid)))
        if first:
            for other, theirs in audience:
                session.deliver(text_frame(theirs.stanza(other.jid, session.jid)))

    def withdraw(self, session: Session) -> None:
        """Tell friends that a session is offline, then the status of the other session, if any."""
        was, session.status, session.waiting_status = session.status, None, None
        person = self.people.get(session.account)
        if not self.enabled or was is None or person is None:
            return
        audience = self._audience(person)
        for other, _ in audience:
            other.deliver(text_frame(gone(session.jid, other.jid)))
        for mine, status in _announced(person):
            for other, _ in audience:
                other.deliver(text_frame(status.stanza(mine.jid, other.jid)))

    def befriend(self, news: FriendAccepted, stamp: str) -> None:
        """Tell both of an accepted request, then each the other's status."""
        if not self.enabled:
            return
        asked, accepted = self.people.get(news.asked), self.people.get(news.accepted_by)
        if accepted is not None:
            _push(accepted, news.asked, "INBOUND", news.created, stamp)
        if asked is not None:
            _push(asked, news.accepted_by, "OUTBOUND", news.created, stamp)
        if asked is not None and accepted is not None:
            _show(asked, accepted)
            _show(accepted, asked)

    def part(self, one: AccountId, other: AccountId) -> None:
        """Tell two accounts that are no longer friends that the other is offline."""
        mine, theirs = self.people.get(one), self.people.get(other)
        if self.enabled and mine is not None and theirs is not None:
            _hide(mine, theirs)
            _hide(theirs, mine)

    def _audience(self, person: Person) -> list[tuple[Session, Status]]:
        """The sessions, with status, of friends without a block between."""
        found: list[tuple[Session, Status]] = []
        for account in sorted(person.about.friends):
            friend = self.people.get(account)
            if friend is None or account.lower() == person.account.lower():
                continue
            if not person.about.apart_from(account):
                found += _announced(friend)
        return found


def _announced(person: Person) -> list[tuple[Session, Status]]:
    """The person's sessions that have sent a status, with it."""
    return [(one, one.status) for one in person.bound if one.status is not None]


def _show(sender: Person, receiver: Person) -> None:
    for mine, status in _announced(sender):
        for other, _ in _announced(receiver):
            other.deliver(text_frame(status.stanza(mine.jid, other.jid)))


def _hide(sender: Person, receiver: Person) -> None:
    for mine, _ in _announced(sender):
        for other, _ in _announced(receiver):
            other.deliver(text_frame(gone(mine.jid, other.jid)))


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
            "message",
            stanza.element("body", stanza.text(body)),
            xmlns=stanza.CLIENT,
            from_=f"xmpp-admin@{session.domain}",
            to=session.jid,
        )
        session.deliver(text_frame(said))
