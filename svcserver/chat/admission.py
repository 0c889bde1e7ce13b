"""Log-in and bind, and the limits on sessions of one account. Spec: 2 §4 Chat, §5, §8."""

from __future__ import annotations

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.quota import MOST, Quota
from svcserver.board.waiting import log_failure, with_fallback
from svcserver.chat.effects import LogIn, MakeRoom, Over, Refuse
from svcserver.chat.names import printable
from svcserver.chat.people import People
from svcserver.chat.ports import About, BadToken, Proofs
from svcserver.chat.readings import Readings, pause
from svcserver.chat.session import Session
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.throttle import LogSampler

# Lockout after failed logins, and the wait of an account.
# Anybody can fail in the name of any account, so failures never keep a valid token out: they
# only change what a login that fails again is told. An account must wait a minute only for
# what its own logged-in sessions did.
WINDOW_S = 600.0
LOCKOUT_S = 600.0
WAIT_S = 60.0
FAILURES = Quota.of("chat_failures", 10, WINDOW_S)
NEVER_BOUND = Quota.of("chat_never_bound", 3, WINDOW_S)
LOCKED = Kind("chat_locked", float, lives_s=LOCKOUT_S, most=MOST)
WAITING = Kind("chat_waiting", float, lives_s=WAIT_S, most=MOST)


@frozen
class Lockout:
    """The log-in failures by account and address together, and by address alone.

    An address is the forwarded one, for IPv6 its /64; that of a direct caller is "" and
    counts only together with an account.
    """

    transaction: BoardTransaction

    def locked(self, account: AccountId, address: str) -> bool:
        """Whether the next failing login is refused without a reason, and not counted."""
        return any(self.transaction.get(LOCKED, key) is not None for key in _keys(account, address))

    def failed(self, account: AccountId, address: str) -> None:
        """Count a failed login; the tenth within ten minutes locks."""
        for key in _keys(account, address):
            FAILURES.take(self.transaction, key)
            if FAILURES.is_full(self.transaction, key):
                self.transaction.put(LOCKED, key, self.transaction.now)

    def waits(self, account: AccountId) -> bool:
        """Whether the account must wait, even with a valid token."""
        return self.transaction.get(WAITING, account.lower()) is not None

    def never_bound(self, account: AccountId) -> None:
        """Count a login whose connection ended without a session."""
        key = account.lower()
        NEVER_BOUND.take(self.transaction, key)
        if NEVER_BOUND.is_full(self.transaction, key):
            self.let_wait(account)

    def let_wait(self, account: AccountId) -> None:
        """Make the account wait for ``WAIT_S``, after one of its sessions was ended for abuse."""
        self.transaction.put(WAITING, account.lower(), self.transaction.now)


def _keys(account: AccountId, address: str) -> list[str]:
    network = network_of(address)
    keys = [f"{account.lower()} {network}"] if account else []
    return [*keys, network] if network else keys


log = Logger()

LATER = "temporary-auth-failure"
MAX_CONNECTIONS = 3  # per account, those not yet bound among them
MAX_BOUND = 2  # sessions per account
OURS = ("shutdown", "revoked", "full")  # reasons of an end that the account did not cause
CAUSES = ("replaced", "abuse", "size", "backlog")  # reasons after which the account must wait


@define
class Admission:
    """Logs sessions in, binds them, and counts failures for the lockout."""

    proofs: Proofs
    people: People
    readings: Readings
    counters: Counters
    board: Board
    lines: LogSampler = field(factory=LogSampler)  # log lines of connections not logged in

    # -- login -------------------------------------------------------------

    def log_in(self, session: Session, wish: LogIn) -> None:
        """Verify the token, then read the account from the game."""
        account = self._proven(session, wish)
        if isinstance(account, Refuse):
            self.refuse(session, account)
            return
        session.claim = account
        asked = Deferred.fromCoroutine(self._ask(account, session.network))
        reading: Deferred[About | Refuse | None] = asked.addErrback(_unavailable, session, account)
        pause(session, reading, lambda found: self._finish(session, account, found))

    async def _ask(self, account: AccountId, network: str) -> About | Refuse | None:
        near = [(WAITING, account.lower())]
        waits = self.board.transact(lambda transaction: Lockout(transaction).waits(account), near)
        if await with_fallback(waits, fallback=False):
            return Refuse(LATER, "throttled", account)
        return await self.readings.ask(account, frozenset([network] if network else []))

    def _proven(self, session: Session, wish: LogIn) -> AccountId | Refuse:
        try:
            proven = self.proofs.account_of(wish.token)
        except BadToken as why:
            return Refuse("not-authorized", str(why), wish.account)
        if proven.lower() != wish.account.lower():
            return Refuse("not-authorized", "uid-mismatch", wish.account)
        return proven

    def refuse(self, session: Session, why: Refuse) -> None:
        """Count the failure and refuse the login; a locked-out client is not told why."""
        if why.condition == LATER:
            self._tell_refused(session, why)
            return

        def work(transaction: BoardTransaction) -> Refuse:
            lockout = Lockout(transaction)
            if lockout.locked(why.account, session.address):
                return Refuse(LATER, "throttled", why.account)
            lockout.failed(why.account, session.address)
            return why

        counted = with_fallback(self.board.transact(work), fallback=why)
        counted.addErrback(_unavailable, session, why.account)
        pause(session, counted, lambda found: self._tell_refused(session, found))

    def _tell_refused(self, session: Session, why: Refuse) -> None:
        self.counters.add(Counted.FAILED_LOGINS, f"chat_{why.reason.replace('-', '_')}")
        if self.says(session):
            log.info(
                "login refused c={number} reason={reason} uid={uid}{omitted}",
                number=session.number,
                reason=why.reason,
                uid=printable(why.account),
                omitted=self.omitted_words(),
            )
        session.refuse(why)

    def says(self, session: Session) -> bool:
        """Whether to log a line about a connection that is not logged in: a flood is sampled."""
        kept = self.lines.keeps(session.network, session.seconds())
        if not kept:
            self.counters.add(Counted.DROPPED_LOG_LINES, "chat_refusals")
        return kept

    def omitted_words(self) -> str:
        """The end of a log line: how many lines were omitted since the last call."""
        count = self.lines.take_omitted()
        return f" omitted={count}" if count else ""

    def _finish(self, session: Session, account: AccountId, found: About | Refuse | None) -> None:
        if found is None:
            found = Refuse("not-authorized", "no-account", account)
        if isinstance(found, Refuse):
            self.refuse(session, found)
            return
        now = session.seconds()
        person = self.people.arrive(account, found, now)
        waiting = [one for one in person.sessions if not one.bound]
        if len(person.sessions) >= MAX_CONNECTIONS and waiting:
            waiting[0].end("refused")
            person = self.people.arrive(account, found, now)
        person.sessions.append(session)
        log.info("login ok c={number} uid={uid}", number=session.number, uid=account)
        session.log_in(account, found.name)

    # -- bind --------------------------------------------------------------

    def make_room(self, session: Session, wish: MakeRoom) -> None:
        """End the session with the same resource, and over the limit the one silent longest."""
        person = self.people.get(session.account)
        if person is None:
            return
        for one in person.bound:
            if one.resource == wish.resource:
                one.end("replaced")
        while len(person.bound) >= MAX_BOUND:
            min(person.bound, key=lambda one: one.heard).end("replaced")

    def bound(self, session: Session) -> None:
        """Ping the account's other sessions, so that dead ones end."""
        person = self.people.get(session.account)
        sessions = person.bound if person is not None else []
        log.info(
            "bound c={number} uid={uid} resource={resource} domain={domain} sessions={count}",
            number=session.number,
            uid=session.account,
            resource=printable(session.resource),
            domain=printable(session.domain),
            count=len(sessions),
        )
        for one in sessions:
            if one is not session:
                one.probe()

    # -- the end -----------------------------------------------------------

    def left(self, session: Session, over: Over) -> None:
        """Forget the session; after some reasons its account must wait before the next login."""
        never_bound = not over.was_bound and over.reason not in OURS
        if over.reason in CAUSES or (session.account and never_bound):
            self._count_end(session, over)
        person = self.people.get(session.account)
        if person is not None and session in person.sessions:
            person.sessions.remove(session)
            self.people.drop(person)

    def _count_end(self, session: Session, over: Over) -> None:
        def work(transaction: BoardTransaction) -> None:
            lockout = Lockout(transaction)
            if over.reason == "size":
                lockout.failed(session.account, session.address)
            if session.account and not over.was_bound:
                lockout.never_bound(session.account)
            elif session.account and over.reason in CAUSES:
                lockout.let_wait(session.account)

        log_failure(self.board.transact(work))


def _unavailable(why: Failure, session: Session, account: AccountId) -> Refuse:
    if not why.check(Unavailable):  # which is told where it was noticed, and no mistake of ours
        log.failure("login c={number}: the game cannot be asked", why, number=session.number)
    return Refuse(LATER, "unavailable", account)
