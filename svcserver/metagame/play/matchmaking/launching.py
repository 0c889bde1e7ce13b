"""Launches game servers in the background, because a launch may outlast the player's request."""

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel.every import Every
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Unavailable
from svcserver.metagame.play.deploy_client import Busy, DeployClient, DeployFailed
from svcserver.metagame.play.matches import Match
from svcserver.metagame.play.matchmaking.launches import end_those_not_on
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from svcserver.metagame.play.matchmaking.store import LiveMatches

log = Logger()

ALIVE_S = 5.0  # seconds between two renewals of a launch request


@define
class Launching:
    """Requests a game server for each launch that ``Matchmaker.begin`` returns."""

    matches: LiveMatches
    deploy: DeployClient
    clock: IReactorTime
    _running: dict[str, dict[Deferred[None], None]] = field(
        factory=dict, init=False
    )  # the waiting polls of each match

    def wait(self, match_id: str, seconds: float) -> Deferred[None]:
        """Return a Deferred that fires when the launch has ended or ``seconds`` have passed."""
        done: Deferred[None] = Deferred()
        waiting = self._running.get(match_id)
        if waiting is None:
            done.callback(None)
            return done
        waiting[done] = None
        late = self.clock.callLater(seconds, _fire, done)

        def over(result: Any) -> Any:
            waiting.pop(done, None)
            return _stop(late, result)

        done.addBoth(over)
        return done

    def start(self, match_id: str, request: LaunchRequest) -> None:
        """Request a game server for this match, unless this worker is already requesting it."""
        if match_id in self._running:
            return  # this worker is still requesting it; only the renewal was late
        self._running[match_id] = {}
        work = Deferred.fromCoroutine(self._launch(match_id, request))
        alive = Every(
            self.clock, ALIVE_S, lambda: self._lives(match_id), "the heartbeat of a launch"
        )
        alive.startService()
        work.addErrback(_failed)
        work.addBoth(lambda _: alive.stopService())
        work.addBoth(lambda _: self._decided(match_id))

    def _lives(self, match_id: str) -> Deferred[None]:
        return self.matches.on_match(match_id, lambda rules, match: rules.still_asking(match))

    def _decided(self, match_id: str) -> None:
        for waiter in list(self._running.pop(match_id, ())):
            _fire(waiter)

    async def _launch(self, match_id: str, request: LaunchRequest) -> None:
        on_match = self.matches.on_match
        ports = None
        if await on_match(match_id, lambda rules, match: bool(rules.launches.running(match))):
            ports = await self.deploy.ports()

        def may_start(rules: Matchmaker, match: Match) -> bool:
            if ports is not None:
                end_those_not_on(rules.launches.running(match), ports)
            return rules.may_start(match)

        if not await on_match(match_id, may_start):
            return
        try:
            server = await self.deploy.launch(request, match_id)
        except Busy:
            await on_match(match_id, lambda rules, match: rules.refused(match))
        except DeployFailed as why:
            text = "the launch of a game server for the hunt {hunt} failed: {why}"
            log.warn(text, hunt=request.hunt_id, why=str(why))
            await on_match(match_id, lambda rules, match: rules.failed(match))
        except Exception:
            # a bug must not leave the players waiting
            log.failure("a launch for {hunt} failed", hunt=request.hunt_id)
            await on_match(match_id, lambda rules, match: rules.failed(match))
        else:
            await on_match(match_id, lambda rules, match: rules.ready(match, server))


def _failed(why: Failure) -> None:
    if why.check(Unavailable):  # the board is down: another poll retries
        text = "a launch could not be recorded; the players' next poll repeats it: {why}"
        log.warn(text, why=why.getErrorMessage())
    else:
        log.failure("a launch failed", why)


def _fire(done: Deferred[None]) -> None:
    if not done.called:
        done.callback(None)


def _stop(late: Any, result: Any) -> Any:
    if late.active():
        late.cancel()
    return result
