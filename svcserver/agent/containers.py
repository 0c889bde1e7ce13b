"""The node's game servers, which run as containers of the container engine on the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svcserver.deploy.docker_api import DockerApi, EngineError
from svcserver.deploy.swarm import HOST
from svcserver.kernel.throttle import Throttle

log = Logger()

STOP_S = 5  # from SIGTERM to SIGKILL; shorter than the deadline of a call
AGAIN_S = 5.0
LABELLED = {"label": [HOST]}
EVENTS = {**LABELLED, "type": ["container"], "event": ["start", "die"]}


@define(eq=False)
class Containers:
    """The containers that run game servers; a label identifies them."""

    api: DockerApi
    clock: Any
    _warnings: Throttle = field(factory=Throttle, init=False)

    async def stop_all(self) -> None:
        """Stop every game server of this node, all at the same time."""
        try:
            listed = await self.api.call("GET", "/containers/json", filters=LABELLED)
        except EngineError as error:
            self._warn(error)
            return
        ids = [str(container["Id"]) for container in listed or []]
        await DeferredList([Deferred.fromCoroutine(self._stop(name)) for name in ids])

    async def _stop(self, container: str) -> None:
        log.warn("the agent is stopping the game server in container {name}", name=container[:12])
        try:
            await self.api.call("POST", f"/containers/{container}/stop", t=str(STOP_S))
        except EngineError as error:
            self._warn(error)

    async def has_image(self, name: str) -> bool | None:
        """Return whether the node has an image, or None if its container engine does not answer."""
        try:
            await self.api.call("GET", f"/images/{quote(name, safe='/:')}/json")
        except EngineError as error:
            return False if error.status == 404 else None
        return True

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever a game server starts or ends; never return."""
        while True:
            try:
                await self.api.call("GET", "/containers/json", filters=LABELLED)
                changed()
                await self.api.follow_events(EVENTS, changed)
            except EngineError as error:
                self._warn(error)
            await deferLater(self.clock, AGAIN_S)

    def _warn(self, error: EngineError) -> None:
        if self._warnings.due("", self.clock.seconds()):
            log.warn("a request to the container engine failed: {why}", why=error)
