"""From the first ``<open>`` to the answer to ``<auth>``. Spec: 2 §4 Chat, §5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.words.protocols.jabber.sasl import SASLIncorrectEncodingError, fromBase64

from svcserver.chat import stanza
from svcserver.chat.names import is_domain
from svcserver.chat.ports import About, BadToken
from svcserver.chat.stanza import Stanza
from svcserver.kernel.counters import Counted
from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.secrets import hex_token

if TYPE_CHECKING:
    from svcserver.chat.session import Session

log = Logger()

LATER = "temporary-auth-failure"
MAX_FRAMES = 4
MAX_PAYLOAD = 12_000  # base64 characters
MAX_TOKEN = 8_192
MAX_ID = 128
MAX_CONNECTIONS = 3  # per account, those not yet bound among them


@define
class Progress:
    """How far a login is.

    ``account`` is whose token was valid, from then on.
    """

    frames: int = 0
    account: AccountId = ""
    opened: bool = False
    tried: bool = False


class Refused(Exception):
    """The login fails: the condition on the wire, and the reason for the log."""

    def __init__(self, condition: str, reason: str, account: AccountId = "") -> None:
        super().__init__(reason)
        self.condition, self.reason, self.account = condition, reason, account


def unreadable(session: Session, restricted: bool) -> None:
    """A frame before login that is no stanza."""
    if restricted:
        session.write(stanza.RESTRICTED_XML)
    session.end("refused")


def handle(session: Session, said: Stanza) -> None:
    """A stanza before login."""
    progress = session.progress
    progress.frames += 1
    if progress.frames > MAX_FRAMES:
        session.end("refused")
    elif said.name == "close":
        session.end("close")
    elif said.name == "open":
        progress.opened = True
        open_stream(session, said)
    elif said.name == "auth" and progress.opened and not progress.tried:
        progress.tried = True
        _authenticate(session, said)
    else:
        if said.name == "iq" and said.child("query", stanza.LEGACY_AUTH) is not None:
            stanza_id = said.get("id")
            if len(stanza_id) <= MAX_ID:
                session.write(stanza.failed(stanza_id, "not-authorized"))
        session.end("refused")


def open_stream(session: Session, said: Stanza) -> None:
    """Answer ``<open>`` with what can be done next; fix the domain until bind."""
    to = said.get("to")
    if not session.bound:
        session.domain = to if is_domain(to) else session.hall.settings.domain
    session.write(
        stanza.element(
            "open",
            xmlns=stanza.FRAMING,
            from_=session.domain,
            id=hex_token(16),
            version="1.0",
            **{"xml:lang": "en"},
        )
    )
    if session.person is None:
        mechanism = stanza.element("mechanism", "PLAIN")
        offer = stanza.element("mechanisms", mechanism, xmlns=stanza.SASL)
    else:
        offer = stanza.element("bind", xmlns=stanza.BIND)
    session.write(f'<stream:features xmlns:stream="{stanza.STREAMS}">{offer}</stream:features>')


def _authenticate(session: Session, said: Stanza) -> None:
    try:
        account = _check(session, said)
    except Refused as why:
        _refuse(session, why)
        return
    session.wait()
    hall, session.progress.account = session.hall, account
    reading = hall.ask(account)

    def failed(why: Failure) -> None:
        log.failure("login c={number}: the game cannot be asked", why, number=session.number)
        refusal = Refused(LATER, "unavailable", account)
        session.resume(lambda: _refuse(session, refusal))

    def answered(about: About | None) -> None:
        session.resume(lambda: _finish(session, account, about))

    reading.addCallbacks(answered, failed)


def _check(session: Session, said: Stanza) -> AccountId:
    """Whom the payload proves; raises Refused."""
    hall = session.hall
    if said.get("mechanism") != "PLAIN":
        raise Refused("invalid-mechanism", "bad-mechanism")
    account, token = _payload(said.text)
    try:
        proven = hall.game.account_of(token)
    except BadToken as why:
        raise Refused("not-authorized", str(why), account) from None
    if proven.lower() != account.lower():
        raise Refused("not-authorized", "uid-mismatch", account)
    if hall.lockout.waits(proven, hall.seconds()):
        raise Refused(LATER, "throttled", proven)
    return proven


def _payload(text: str) -> tuple[AccountId, str]:
    """Account and token; the authorisation id may repeat the account."""
    text = text.strip()
    try:
        if len(text) > MAX_PAYLOAD:
            raise ValueError
        authzid, account, token = fromBase64(text).decode("utf-8").split("\0")
    except (ValueError, SASLIncorrectEncodingError):
        raise Refused("not-authorized", "bad-format") from None
    same = authzid.partition("@")[0].lower() in ("", account.lower())
    if not same or not is_account_shaped(account) or not 0 < len(token) <= MAX_TOKEN:
        raise Refused("not-authorized", "bad-format")
    return account, token


def _refuse(session: Session, why: Refused) -> None:
    hall, now = session.hall, session.hall.seconds()
    if why.condition != LATER:
        if hall.lockout.locked(why.account, session.address, now):
            why = Refused(LATER, "throttled", why.account)
        else:
            hall.lockout.failed(why.account, session.address, now)
    hall.counters.add(Counted.FAILED_LOGINS, f"chat_{why.reason.replace('-', '_')}")
    log.info(
        "login refused c={number} reason={reason} uid={uid}",
        number=session.number,
        reason=why.reason,
        uid=why.account,
    )
    session.write(stanza.element("failure", stanza.element(why.condition), xmlns=stanza.SASL))


def _finish(session: Session, account: AccountId, about: About | None) -> None:
    if about is None:
        _refuse(session, Refused("not-authorized", "no-account", account))
        return
    now = session.hall.seconds()
    person = session.hall.people.arrive(account, about, now)
    waiting = [one for one in person.sessions if not one.bound]
    if len(person.sessions) >= MAX_CONNECTIONS and waiting:
        waiting[0].end("refused")
        person = session.hall.people.arrive(account, about, now)
    person.sessions.append(session)
    session.person, session.logged_in_at = person, now
    session.names = frozenset([about.name])
    log.info("login ok c={number} uid={uid}", number=session.number, uid=account)
    session.write(stanza.element("success", xmlns=stanza.SASL))
