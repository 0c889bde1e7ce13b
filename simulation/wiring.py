"""Replacements for the keys, firewall, files and treq client that a simulated host uses."""

import base64
import hashlib
import random
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from attrs import define, field, frozen
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from treq.client import HTTPClient
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool
from twisted.web.iweb import UNKNOWN_LENGTH, IBodyProducer
from zope.interface import implementer

from simulation.process import Process
from svcserver.allowlist.entries import OpenAddress
from svcserver.allowlist.programs import FirewallError
from svcserver.allowlist.scripts import Rule
from svcserver.content.game_files import ServedGameFiles
from svcserver.content.manifest import Manifest, ManifestEntry
from svcserver.edge.connections import ChannelFactory
from svcserver.gateway.upstreams import Upstreams
from svcserver.http.peers import peer_of
from svcserver.kernel.buggify import buggify

EXPONENT = 65_537
_SMALL = [n for n in range(3, 2_000, 2) if all(n % m for m in range(3, int(n**0.5) + 1, 2))]


def _prime(draw: random.Random) -> int:
    """Return a prime of 1024 bits; the simulation's key need not be secret."""
    while True:
        candidate = draw.getrandbits(1024) | (3 << 1022) | 1
        if any(candidate % divisor == 0 for divisor in _SMALL) or (candidate - 1) % EXPONENT == 0:
            continue
        if all(pow(base, candidate - 1, candidate) == 1 for base in (2, 3, 5)):
            return candidate


@lru_cache(maxsize=1)
def signing_keys() -> tuple[str, str]:
    """Return the values of the two settings that contain the private and the public key.

    The key pair is the same in every simulation.
    """
    draw = random.Random("the signing key of every simulation")  # noqa: S311
    p, q = _prime(draw), _prime(draw)
    n, d = p * q, pow(EXPONENT, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(EXPONENT, n)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    key = numbers.private_key()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(private).decode(), base64.b64encode(shown).decode()


@implementer(IBodyProducer)
class _Body:
    """A body that is written immediately; treq's own body needs iterations of the real reactor."""

    def __init__(self, data: Any) -> None:
        self.data = data.read() if isinstance(data, BytesIO) else bytes(data)
        self.length: Any = len(self.data) if self.data is not None else UNKNOWN_LENGTH

    def startProducing(self, consumer: Any) -> Deferred[None]:
        consumer.write(self.data)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Do nothing: the body is already written."""

    def resumeProducing(self) -> None:
        """Do nothing: the body is already written."""

    def stopProducing(self) -> None:
        """Do nothing: the body is already written."""


@lru_cache(maxsize=1)
def _https() -> BrowserLikePolicyForHTTPS:
    """Return the HTTPS policy that treq needs; creating it is slow, so all clients share it."""
    return BrowserLikePolicyForHTTPS()


def http_client(reactor: Any, connect_s: float = 5.0) -> HTTPClient:
    """Return the treq client of a service."""
    pool = HTTPConnectionPool(reactor)
    agent = Agent(reactor, _https(), connectTimeout=connect_s, pool=pool)
    return HTTPClient(agent, data_to_body_producer=_Body)


@define(eq=False)
class FakeFirewall:
    """A firewall that stores its rule and outlives the allowlist helper."""

    name: str = "simulated"
    rule: Rule | None = None
    runs: int = 0
    broken: bool = False
    failed: int = 0

    async def apply(self, rule: Rule) -> None:
        self.runs += 1
        if self.broken or buggify("firewall: a run of its program fails"):
            self.failed += 1
            raise FirewallError("simulated")
        self.rule = rule

    async def holds(self, rule: Rule) -> bool:
        """Return whether the firewall has exactly this rule."""
        return self.rule == rule

    def describe(self, rule: Rule) -> str:
        """Return the rule in the form that the audit log shows."""
        return f"open {rule.ports} for {', '.join(rule.ips) or 'nobody'}"

    def lets_in(self, ip: str, port: int) -> bool:
        """Return whether a datagram from this address reaches the port."""
        rule = self.rule
        return rule is not None and rule.ports.low <= port <= rule.ports.high and ip in rule.ips


@define(eq=False)
class MemoryState:
    """The allowlist's state file in memory, which outlives the allowlist helper."""

    entries: list[OpenAddress] = field(factory=list)

    def save(self, entries: Any, now: float) -> None:
        self.entries = list(entries)

    def load(self) -> list[OpenAddress]:
        return list(self.entries)


@frozen
class NoAudit:
    """An audit log that writes nothing, because the simulation's history records more."""

    path: Path = Path("audit.log")

    def write(self, event: str, **fields: Any) -> None:
        """Do nothing."""

    def refused(self, reason: str, value: Any) -> None:
        """Do nothing."""


@define(eq=False, slots=False)
class PlainListener(Service):
    """A listener like ``gateway.service.TlsListener`` without TLS."""

    reactor: Process
    policy: Any
    settings: Any
    upstreams: Upstreams
    factory: ChannelFactory = field(init=False)

    def __attrs_post_init__(self) -> None:
        policy = self.policy
        self.factory = Admitting(self.reactor, policy, secure=False)
        self.factory.on_lost = policy.left
        policy.counts.make_room = lambda: policy.evicted(self.factory.evict(policy.counts.beside))
        self.factory.sweeps += [pool.sweep for pool in self.upstreams.pools]

    def startService(self) -> None:
        Service.startService(self)
        self.reactor.listenTCP(self.settings.port, self.factory)


class Admitting(ChannelFactory):
    """A factory that accepts the connections its policy admits, like ``edge.tls.TlsFactory``."""

    def buildProtocol(self, addr: Any) -> Any:
        """Return the protocol of an admitted connection; None rejects the connection."""
        policy: Any = self.policy
        return super().buildProtocol(addr) if policy.admit(peer_of(addr)) else None


class _InMemory(ServedGameFiles):
    """Game files in memory, so that no run leaves a folder behind."""

    def check(self) -> None:
        """Do nothing: files in memory are always present."""

    def open(self, entry: ManifestEntry) -> BinaryIO:
        return BytesIO(FILES[entry.path])


FILES = {"game.pak": b"\x00\x01game\xff" * 700, "readme.txt": b"one file more\n"}


@lru_cache(maxsize=1)
def game_files() -> ServedGameFiles:
    """Return two small files, which all simulations of this process share."""
    listed = {
        name: ManifestEntry(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in FILES.items()
    }
    return _InMemory(Path("/"), Manifest("sim-1", listed))
