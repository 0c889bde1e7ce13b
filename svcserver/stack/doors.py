"""Which components of a host answer.

A process that is frozen still has its port: the system takes connections for it. So a knock is a
request, and anything said to it, or an end of the connection, is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.stack.alerts.disks import lines
from svcserver.stack.components import Component

log = Logger()
KNOCK_S = 10.0  # for the connection and the answer
REQUEST = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"
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


def _with_door(components: Sequence[Component]) -> Sequence[Component]:
    """The relay, which belongs on players' machines, is no service of the host."""
    return [one for one in components if one.kind in OWN]


class _Knock(Protocol):
    """Asks, and goes away as soon as anything is answered; ``answered`` fires then."""

    def __init__(self) -> None:
        self.answered: Deferred[None] = Deferred(lambda _: self._go())

    def connectionMade(self) -> None:
        wire: Any = self.transport
        wire.write(REQUEST)

    def dataReceived(self, data: bytes) -> None:
        self._go()
        self._heard()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._heard()  # as TLS ends what is none

    def _heard(self) -> None:
        if not self.answered.called:
            self.answered.callback(None)

    def _go(self) -> None:
        wire: Any = self.transport
        wire.abortConnection()


@define(eq=False)
class Doors:
    """Knocks at every component that has a door; ``open`` names those that answer."""

    reactor: Any
    components: Sequence[Component] = field(converter=_with_door)
    open: set[str] = field(factory=set, init=False)

    def look(self) -> Deferred[None]:
        """Knock at all of them at once."""
        asked = [Deferred.fromCoroutine(self._knock(one)) for one in self.components]
        return DeferredList(asked).addCallback(lambda _: None)

    async def _knock(self, one: Component) -> None:
        host, port = door(one.kind, {**lines(one.env_file), **one.extra})
        kind = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
        opened = kind(self.reactor, host, port).connect(Factory.forProtocol(_Knock))
        until = self.reactor.seconds() + KNOCK_S
        try:
            knock: Any = await opened.addTimeout(KNOCK_S, self.reactor)
            left_s = max(0.0, until - self.reactor.seconds())
            await knock.answered.addTimeout(left_s, self.reactor)
        except Exception as why:  # refused, silent, no such address
            log.debug("{name} does not answer: {why}", name=one.name, why=repr(why))
            self.open.discard(one.name)
        else:
            self.open.add(one.name)
