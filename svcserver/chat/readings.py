"""The code that reads account data at log-in, and before actions that need fresh data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.chat.people import People, Person
from svcserver.chat.ports import About, Accounts
from svcserver.chat.presence import Friendships
from svcserver.chat.session import Session
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.throttle import Throttle

log = Logger()

GAME_TIMEOUT_S = 10.0
FRESH_S = 1.0  # how old an account's data may be when its session acts


@define
class Readings:
    """The reader of account data."""

    accounts: Accounts
    clock: IReactorTime
    people: People
    friendships: Friendships
    _throttle: Throttle = field(factory=Throttle, init=False, repr=False)

    def fetch_account(self, account: AccountId, networks: frozenset[str]) -> Deferred[About | None]:
        """Return the account's current data; fails with Unavailable after a timeout."""
        reply: Deferred[About | None] = maybeDeferred(self.accounts.about, account, networks)
        return reply.addTimeout(GAME_TIMEOUT_S, self.clock, self._late)

    def _late(self, _: object, seconds: float) -> Failure:
        if self._throttle.due("late", self.clock.seconds()):
            log.warn(
                "the account data could not be read within {seconds} s. Chat log-ins fail, and"
                " the chat checks rights with older data",
                seconds=round(seconds),
            )
        return Failure(Unavailable("the game does not answer"))

    def reread(self, person: Person) -> Deferred[None]:
        """Read the person's data again; if the game does not answer, keep the old data."""
        version, number = person.version, person.readings + 1
        person.readings = number

        def keep(about: About | None) -> None:
            if about is None or person.version != version or person.about_number > number:
                return
            before, person.about, person.read_at = person.about, about, self.clock.seconds()
            person.about_number = number
            # this read may come before the signal of the change; the signal then has no effect
            for friend in sorted(before.friends - about.friends):
                self.friendships.end(person.account, friend)

        def failed(why: Failure) -> None:
            if why.check(Unavailable):  # logged where it occurred, and not a defect
                return
            log.failure("the account data of {uid} cannot be read", why, uid=person.account)

        reading: Deferred[Any] = self.fetch_account(person.account, person.networks)
        return reading.addCallback(keep).addErrback(failed)

    def freshly(self, session: Session, act: Callable[[], None], *, anew: bool = False) -> None:
        """Run ``act``; if the account data are older than ``FRESH_S``, read them again first.

        With ``anew``, the data are always read again.
        """
        person = self.people.get(session.account)
        if person is None:
            return
        if anew or self.clock.seconds() - person.read_at >= FRESH_S:
            pause(session, self.reread(person), lambda _: act())
        else:
            act()


def pause(session: Session, reading: Deferred[Any], go_on: Callable[[Any], None]) -> None:
    """Queue the session's input until ``reading`` fires and ``go_on`` has handled the result."""
    at_once: list[Any] = []
    waiting = False

    def on_result(result: Any) -> None:
        if waiting:
            # one reading may answer many sessions in one turn
            session.wire.take_turn(lambda: session.resume(lambda: go_on(result)))
        else:
            at_once.append(result)

    reading.addCallback(on_result)
    if at_once:
        go_on(at_once[0])
    else:
        waiting = True
        session.wait()
