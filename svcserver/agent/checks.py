"""The checks that a node makes when the host requests them: the container image and game ports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define
from twisted.internet.abstract import isIPAddress
from twisted.internet.defer import CancelledError
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svcserver.agent.containers import Containers
from svcserver.agent.link import HostLink
from svcserver.deploy.datagrams import exchange

log = Logger()

EVERY_S = 120.0
AGAIN_S = 15.0  # after an error
MAX_NONCE = 64


@define(eq=False)
class NodeChecks:
    """The checks that the host requests; ``link`` reports the results to the host."""

    reactor: Any
    link: HostLink
    containers: Containers
    exchange: Callable[..., Awaitable[bool | None]] = exchange

    async def run(self) -> None:
        """Run the checks at intervals; never return."""
        while True:
            try:
                await self._check()
            except CancelledError:  # the agent stops
                raise
            except Exception as error:  # the host does not answer, or has an earlier version
                log.debug("the checks that the host requests failed: {why}", why=repr(error))
                await deferLater(self.reactor, AGAIN_S)
            else:
                await deferLater(self.reactor, EVERY_S)

    async def _check(self) -> None:
        match await self.link.begin_check():
            case {"image": str(image), "trial": trial}:
                self.link.has_image = await self.containers.has_image(image)
                await self._try_ports(trial)

    async def _try_ports(self, trial: Any) -> None:
        match trial:
            case {"port": int(port), "host": str(host), "sent": str(sent), "awaited": str(awaited)}:
                if 0 < port < 65536 and isIPAddress(host) and len(sent) <= MAX_NONCE:
                    self.link.is_reached = await self.exchange(
                        self.reactor, port, host, sent=sent, awaited=awaited
                    )
