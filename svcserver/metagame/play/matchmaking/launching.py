"""Runs launches in the background, since they outlive the player's request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.metagame.play.matchmaking.deploy_client import Busy, DeployClient, Failed
from svcserver.metagame.play.matchmaking.launches import end_those_not_on
from svcserver.metagame.play.matchmaking.matches import Match
from svcserver.metagame.play.matchmaking.rules import Matchmaker

log = Logger()


@define
class Launching:
    """Asks the deploy server once for each match that is due."""

    matchmaker: Matchmaker
    deploy: DeployClient
    clock: IReactorTime
    now: Callable[[], float]
    _running: dict[str, set[Deferred[None]]] = field(factory=dict, init=False)  # who waits

    def wait(self, match: Match, seconds: float) -> Deferred[None]:
        """Start the match if it is due; fires when it is decided or ``seconds`` have passed."""
        if self.matchmaker.due(match, self.now()):
            self._start(match)
        done: Deferred[None] = Deferred()
        waiting = self._running.get(match.id)
        if waiting is None:
            done.callback(None)
            return done
        waiting.add(done)
        late = self.clock.callLater(seconds, _fire, done)

        def over(result: Any) -> Any:
            waiting.discard(done)
            return _stop(late, result)

        done.addBoth(over)
        return done

    def _start(self, match: Match) -> None:
        self._running[match.id] = set()
        work = Deferred.fromCoroutine(self._launch(match))
        work.addErrback(lambda why: log.failure("a launch failed", why))
        work.addBoth(lambda _: self._decided(match))

    def _decided(self, match: Match) -> None:
        for one in list(self._running.pop(match.id, ())):
            _fire(one)

    async def _launch(self, match: Match) -> None:
        wish = self.matchmaker.asking(match, self.now())
        earlier = self.matchmaker.launches.running(match)
        if earlier:
            ports = await self.deploy.ports()
            if ports is not None:
                end_those_not_on(earlier, ports)
        if not self.matchmaker.may_start(match, self.now()):
            return
        try:
            server = await self.deploy.launch(wish)
        except Busy:
            self.matchmaker.busy(match, self.now())
        except Failed as why:
            log.warn("no game server for {hunt}: {why}", hunt=match.hunt_id, why=str(why))
            self.matchmaker.failed(match)
        else:
            self.matchmaker.ready(match, server, self.now())


def _fire(done: Deferred[None]) -> None:
    if not done.called:
        done.callback(None)


def _stop(late: Any, result: Any) -> Any:
    if late.active():
        late.cancel()
    return result
