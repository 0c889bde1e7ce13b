"""Probes of a host's components, and the restart of components that are frozen.

The operating system accepts connections even for a frozen process. So a probe sends a request. Any
reply, or a closed connection, shows that the process is not frozen.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.stack.alerts.disks import read_or_empty
from svcserver.stack.children import Children
from svcserver.stack.components import Component

log = Logger()
PROBE_S = 10.0  # time limit for the connection and the reply
REQUEST = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"
# the variables of a component's port and address, and its default port
ADDRESSES = {
    "metagame": ("PORT", 61000, "BIND_HOST"),
    "deploy": ("PORT", 61001, "BIND_HOST"),
    "content": ("PORT", 61002, "BIND_HOST"),
    "allowlist": ("ALLOWLIST_PORT", 61005, "ALLOWLIST_BIND"),
    "gateway": ("GATEWAY_PORT", 443, "GATEWAY_BIND"),
}
LOOPBACK = "127.0.0.1"
ANY = {"": LOOPBACK, "0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - compared only


def probe_address(kind: str, variables: Mapping[str, str]) -> tuple[str, int]:
    """Return the address to probe: METRICS_PORT if it is set, else the component's own port.

    Strangers can keep the component's own port busy, but they cannot reach METRICS_PORT.
    """
    port, default, bind = ADDRESSES[kind]
    if variables.get("METRICS_PORT", "").isdigit():
        return LOOPBACK, int(variables["METRICS_PORT"])
    address = variables.get(bind, "").partition(",")[0].strip()
    number = variables.get(port, "")
    return ANY.get(address, address), int(number) if number.isdigit() else default


def _without_relay(components: Sequence[Component]) -> Sequence[Component]:
    """Return the components without the relay, which belongs on players' machines."""
    return [component for component in components if component.kind in ADDRESSES]


class _Probe(Protocol):
    """A probe that sends a request; ``answered`` fires at a reply or a disconnect."""

    def __init__(self) -> None:
        self.answered: Deferred[None] = Deferred(lambda _: self._disconnect())

    def connectionMade(self) -> None:
        wire: Any = self.transport
        wire.write(REQUEST)

    def dataReceived(self, data: bytes) -> None:
        self._disconnect()
        self._on_answer()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._on_answer()  # a TLS server closes a connection without TLS

    def _on_answer(self) -> None:
        if not self.answered.called:
            self.answered.callback(None)

    def _disconnect(self) -> None:
        wire: Any = self.transport
        wire.abortConnection()


@define(eq=False)
class Probes:
    """The probes of a host's components; ``answering`` names the components that answer."""

    reactor: Any
    components: Sequence[Component] = field(converter=_without_relay)
    answering: set[str] = field(factory=set, init=False)

    def probe_all(self) -> Deferred[None]:
        """Probe all components concurrently."""
        probes = [Deferred.fromCoroutine(self._probe(component)) for component in self.components]
        return DeferredList(probes).addCallback(lambda _: None)

    async def _probe(self, component: Component) -> None:
        variables = {**read_or_empty(component.env_file), **component.extra}
        host, port = probe_address(component.kind, variables)
        kind = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
        connecting = kind(self.reactor, host, port).connect(Factory.forProtocol(_Probe))
        deadline = self.reactor.seconds() + PROBE_S
        try:
            probe: Any = await connecting.addTimeout(PROBE_S, self.reactor)
            left_s = max(0.0, deadline - self.reactor.seconds())
            await probe.answered.addTimeout(left_s, self.reactor)
        except Exception as error:  # refused, silent, no such address
            log.debug("{name} does not answer: {why}", name=component.name, why=repr(error))
            self.answering.discard(component.name)
        else:
            self.answering.add(component.name)


@define(eq=False)
class FreezeMonitor:
    """The monitor that kills components which answered no probe for ``frozen_s`` seconds."""

    reactor: Any
    children: Children
    probes: Probes
    frozen_s: float  # several probes
    _silent_since: dict[str, float] = field(factory=dict, init=False)

    def ready(self) -> set[str]:
        """Return the names of the components that are ready and answer probes."""
        probed = {component.name for component in self.probes.components}
        return self.children.ready - (probed - self.probes.answering)

    def check(self) -> Deferred[None]:
        """Probe all components and kill those that have not answered for too long."""
        return self.probes.probe_all().addCallback(self._kill_silent)

    def _kill_silent(self, _: None) -> None:
        now, silent = self.reactor.seconds(), self.children.ready - self.ready()
        self._silent_since = {name: self._silent_since.get(name, now) for name in silent}
        for name, since in sorted(self._silent_since.items()):
            if now - since >= self.frozen_s:
                text = "{name} runs, but has answered nothing for {silent:.0f} s: it is killed"
                log.error(text, name=name, silent=now - since)
                del self._silent_since[name]
                self.children.kill(name)
