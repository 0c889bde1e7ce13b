"""Which components of a host listen, where no ``svc-stack`` has them as its children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger

from svcserver.stack.alerts.disks import lines
from svcserver.stack.components import Component

log = Logger()
KNOCK_S = 3.0
# a component's variables of its port and address, and its default port
OWN = {
    "metagame": ("PORT", 61000, "BIND_HOST"),
    "deploy": ("PORT", 61001, "BIND_HOST"),
    "content": ("PORT", 61002, "BIND_HOST"),
    "allowlist": ("ALLOWLIST_PORT", 61005, "ALLOWLIST_BIND"),
    "gateway": ("GATEWAY_PORT", 443, "GATEWAY_BIND"),
}
LOOPBACK = "127.0.0.1"
ANY = {"": LOOPBACK, "0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - compared only


def door(kind: str, variables: Mapping[str, str]) -> tuple[str, int]:
    """Where to knock: at METRICS_PORT where it is set, which strangers' connections do not fill."""
    port, default, bind = OWN[kind]
    if variables.get("METRICS_PORT", "").isdigit():
        return LOOPBACK, int(variables["METRICS_PORT"])
    address = variables.get(bind, "").partition(",")[0].strip()
    number = variables.get(port, "")
    return ANY.get(address, address), int(number) if number.isdigit() else default


class _Knock(Protocol):
    """Goes away as soon as somebody opens."""

    def connectionMade(self) -> None:
        wire: Any = self.transport
        wire.abortConnection()


@define(eq=False)
class Doors:
    """Knocks at every component; ``open`` names those that listen."""

    reactor: Any
    components: Sequence[Component]
    open: set[str] = field(factory=set, init=False)

    def look(self) -> Deferred[None]:
        """Knock at all of them at once."""
        asked = [Deferred.fromCoroutine(self._knock(one)) for one in self.components]
        return DeferredList(asked).addCallback(lambda _: None)

    async def _knock(self, one: Component) -> None:
        host, port = door(one.kind, {**lines(one.env_file), **one.extra})
        kind = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
        opened = kind(self.reactor, host, port).connect(Factory.forProtocol(_Knock))
        try:
            await opened.addTimeout(KNOCK_S, self.reactor)
        except Exception as why:  # refused, silent, no such address: it does not listen
            log.debug("{name} does not listen: {why}", name=one.name, why=repr(why))
            self.open.discard(one.name)
        else:
            self.open.add(one.name)
