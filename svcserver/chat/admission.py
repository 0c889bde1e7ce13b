"""Log-in, resource binding, and the limits on one account's sessions. Spec: 2 §4 Chat, §5, §8."""

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.quota import MOST, Quota
from svcserver.board.waiting import log_failure, with_fallback
from svcserver.chat.effects import LogIn, MakeRoom, Over, RefuseLogin
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

# Anybody can fail to log in to any account. So a valid token is never refused because of failures:
# failures only change the answer to the next failure. Only what an account's own logged-in sessions
# did can make the account wait a minute.
WINDOW_S = 600.0
LOCKOUT_S = 600.0
WAIT_S = 60.0
FAILURES = Quota.named("chat_failures", 10, WINDOW_S)
NEVER_BOUND = Quota.named("chat_never_bound", 3, WINDOW_S)
LOCKED = Kind("chat_locked", float, lives_s=LOCKOUT_S, most=MOST)
WAITING = Kind("chat_waiting", float, lives_s=WAIT_S, most=MOST)


@frozen
class Lockout:
    """The counts of failed log-ins: for each pair of account and address, and for each address.

    The gateway forwards the address; IPv6 addresses are counted by /64 network. If a client
    bypasses the gateway, the address is "", and only the pair is counted.
    """

    transaction: BoardTransaction

    def locked(self, account: AccountId, address: str) -> bool:
        """Return True if the log-in is locked out.

        During a lockout, failed log-ins are not counted.
        """
        return any(self.transaction.get(LOCKED, key) is not None for key in _keys(account, address))

    def failed(self, account: AccountId, address: str) -> None:
        """Count a failed log-in; ten failures within ten minutes start a lockout."""
        for key in _keys(account, address):
            FAILURES.take(self.transaction, key)
            if FAILURES.is_full(self.transaction, key):
                self.transaction.put(LOCKED, key, self.transaction.now)

    def waits(self, account: AccountId) -> bool:
        """Return whether the account must wait before its next log-in, even with a valid token."""
        return self.transaction.get(WAITING, account.lower()) is not None

    def never_bound(self, account: AccountId) -> None:
        """Count a log-in after which the connection ended without a bound resource."""
        key = account.lower()
        NEVER_BOUND.take(self.transaction, key)
        if NEVER_BOUND.is_full(self.transaction, key):
            self.make_wait(account)

    def make_wait(self, account: AccountId) -> None:
        """Block the account's log-ins for ``WAIT_S``, after abuse by one of its sessions."""
        self.transaction.put(WAITING, account.lower(), self.transaction.now)


def _keys(account: AccountId, address: str) -> list[str]:
    network = network_of(address)
    keys = [f"{account.lower()} {network}"] if account else []
    return [*keys, network] if network else keys


log = Logger()

LATER = "temporary-auth-failure"
MAX_CONNECTIONS = 3  # per account, including those not yet bound
MAX_BOUND = 2  # sessions per account
OURS = ("shutdown", "revoked", "full")  # reasons that the account did not cause
CAUSES = ("replaced", "abuse", "size", "backlog")  # reasons after which the account must wait


@define
class Admission:
    """The log-in of sessions, the limit of sessions per account, and lockouts after failures."""

    proofs: Proofs
    people: People
    readings: Readings
    counters: Counters
    board: Board
    lines: LogSampler = field(factory=LogSampler)  # log lines of connections not logged in

    # -- login -------------------------------------------------------------

    def log_in(self, session: Session, request: LogIn) -> None:
        """Verify the token, then read the account's data from the game."""
        account = self._proven(session, request)
        if isinstance(account, RefuseLogin):
            self.refuse(session, account)
            return
        session.claim = account
        lookup = Deferred.fromCoroutine(self._fetch_account(account, session.network))
        reading: Deferred[About | RefuseLogin | None] = lookup.addErrback(
            _unavailable, session, account
        )
        pause(session, reading, lambda about: self._finish(session, account, about))

    async def _fetch_account(self, account: AccountId, network: str) -> About | RefuseLogin | None:
        near = [(WAITING, account.lower())]
        waits = self.board.transact(lambda transaction: Lockout(transaction).waits(account), near)
        if await with_fallback(waits, fallback=False):
            return RefuseLogin(LATER, "throttled", account)
        return await self.readings.fetch_account(account, frozenset([network] if network else []))

    def _proven(self, session: Session, request: LogIn) -> AccountId | RefuseLogin:
        try:
            proven = self.proofs.account_of(request.token)
        except BadToken as why:
            return RefuseLogin("not-authorized", str(why), request.account)
        if proven.lower() != request.account.lower():
            return RefuseLogin("not-authorized", "uid-mismatch", request.account)
        return proven

    def refuse(self, session: Session, refusal: RefuseLogin) -> None:
        """Count the failed log-in and refuse it; a client that is locked out is not told why."""
        if refusal.condition == LATER:
            self._refuse(session, refusal)
            return

        def work(transaction: BoardTransaction) -> RefuseLogin:
            lockout = Lockout(transaction)
            if lockout.locked(refusal.account, session.address):
                return RefuseLogin(LATER, "throttled", refusal.account)
            lockout.failed(refusal.account, session.address)
            return refusal

        counted = with_fallback(self.board.transact(work), fallback=refusal)
        counted.addErrback(_unavailable, session, refusal.account)
        pause(session, counted, lambda outcome: self._refuse(session, outcome))

    def _refuse(self, session: Session, why: RefuseLogin) -> None:
        self.counters.add(Counted.FAILED_LOGINS, f"chat_{why.reason.replace('-', '_')}")
        if self.may_log(session):
            log.info(
                "login refused c={number} reason={reason} uid={uid}{omitted}",
                number=session.number,
                reason=why.reason,
                uid=printable(why.account),
                omitted=self.omitted_text(),
            )
        session.refuse(why)

    def may_log(self, session: Session) -> bool:
        """Return whether to log a line about a connection that has not logged in.

        If one network causes many such lines, only some of them are written.
        """
        is_logged = self.lines.keeps(session.network, session.seconds())
        if not is_logged:
            self.counters.add(Counted.DROPPED_LOG_LINES, "chat_refusals")
        return is_logged

    def omitted_text(self) -> str:
        """Return `` omitted=<count>`` for the end of a log line, or "" if no lines were omitted."""
        count = self.lines.take_omitted()
        return f" omitted={count}" if count else ""

    def _finish(
        self, session: Session, account: AccountId, about: About | RefuseLogin | None
    ) -> None:
        if about is None:
            about = RefuseLogin("not-authorized", "no-account", account)
        if isinstance(about, RefuseLogin):
            self.refuse(session, about)
            return
        now = session.seconds()
        person = self.people.arrive(account, about, now)
        waiting = [older for older in person.sessions if not older.bound]
        if len(person.sessions) >= MAX_CONNECTIONS and waiting:
            waiting[0].end("refused")
            person = self.people.arrive(account, about, now)
        person.sessions.append(session)
        log.info("login ok c={number} uid={uid}", number=session.number, uid=account)
        session.log_in(account, about.name)

    # -- bind --------------------------------------------------------------

    def make_room(self, session: Session, effect: MakeRoom) -> None:
        """End the account's sessions that use the same resource as the new session.

        While the account still has too many sessions, end the session that has been idle longest.
        """
        person = self.people.get(session.account)
        if person is None:
            return
        for bound in person.bound:
            if bound.resource == effect.resource:
                bound.end("replaced")
        while len(person.bound) >= MAX_BOUND:
            min(person.bound, key=lambda bound: bound.last_received).end("replaced")

    def bound(self, session: Session) -> None:
        """Ping the account's other sessions, so that dead connections time out."""
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
        for other_session in sessions:
            if other_session is not session:
                other_session.probe()

    # -- the end -----------------------------------------------------------

    def left(self, session: Session, over: Over) -> None:
        """Remove an ended session.

        Depending on how the session ended, the account must wait before its next log-in.
        """
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
                lockout.make_wait(session.account)

        log_failure(self.board.transact(work))


def _unavailable(failure: Failure, session: Session, account: AccountId) -> RefuseLogin:
    if not failure.check(Unavailable):  # which is logged elsewhere
        text = "login c={number}: the account data cannot be read"
        log.failure(text, failure, number=session.number)
    return RefuseLogin(LATER, "unavailable", account)
