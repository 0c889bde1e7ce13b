"""TLS at the edge: a strict context for the gateway, and a pinning client for the relay.

Only TLS 1.2 and newer with forward secrecy and authenticated encryption is allowed. There is no
renegotiation and no compression; sessions are resumed. The client trusts no authority and no name:
the pinned fingerprint is the only proof.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from OpenSSL import SSL, crypto
from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IHandshakeListener,
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.edge.certificate import BadCertificate, Pair, fingerprint_of_der
from svcserver.edge.prompt import connecting, serving
from svcserver.edge.upstream import Pool, UpstreamConnection
from svcserver.edge.verdicts import Unreachable
from svcserver.http.crosssite import is_address

log = Logger()

# AES-128 first: its handshake hashes with SHA-256, which takes a tenth less than SHA-384
CIPHERS = b"ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20"
CIPHERS_1_3 = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
HTTP_1_1 = b"http/1.1"


def _context() -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_cipher_list(CIPHERS)
    context.set_tls13_ciphersuites(CIPHERS_1_3)
    context.set_options(
        SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
    )
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    return context


def server_context(pair: Pair) -> SSL.Context:
    """Return the gateway's TLS context; OpenSSL makes new session ticket keys at every start.

    Raises BadCertificate for a pair that OpenSSL rejects, such as one with a short key.
    """
    context = _context()
    _use(context, pair)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # clients keep the sessions, in tickets
    context.set_session_id(b"svc-gateway")
    context.set_alpn_select_callback(_choose)
    return context


def _use(context: SSL.Context, pair: Pair) -> None:
    """Present this pair to the peer; raises BadCertificate."""
    key: Any = serialization.load_pem_private_key(pair.key, password=None)
    try:
        first, *chain = x509.load_pem_x509_certificates(pair.certificate)
        context.use_certificate(first)
        for certificate in chain:
            context.add_extra_chain_cert(certificate)
        context.use_privatekey(key)
    except (SSL.Error, ValueError) as error:
        raise BadCertificate(
            "certificate", f"cannot be used for TLS: {error}; make one with svcctl cert make"
        ) from None


def node_context(pair: Pair, authority: bytes) -> SSL.Context:
    """Return the TLS context of a listener whose clients need a certificate of the authority.

    No session is resumed, so a client must present its certificate on each connection.
    """
    context = server_context(pair)
    context.set_options(SSL.OP_NO_TICKET)
    store = context.get_cert_store()
    if store is None:
        raise BadCertificate("certificate", "cannot be checked: OpenSSL has no certificate store")
    store.add_cert(crypto.X509.from_cryptography(x509.load_pem_x509_certificate(authority)))
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)
    return context


def peer_fingerprint(transport: Any) -> str:
    """Return the fingerprint of the peer's certificate, after the handshake."""
    certificate: Any = transport.getPeerCertificate()
    der = certificate.to_cryptography().public_bytes(serialization.Encoding.DER)
    return fingerprint_of_der(der)


def _choose(connection: SSL.Connection, offered: list[bytes]) -> Any:
    """Choose HTTP/1.1 if the client offers it by ALPN; otherwise continue without ALPN."""
    return HTTP_1_1 if HTTP_1_1 in offered else SSL.NO_OVERLAPPING_PROTOCOLS


@implementer(IOpenSSLServerConnectionCreator)
class Serving:
    """The factory of server-side TLS connections."""

    def __init__(self, context: SSL.Context) -> None:
        self.context = context

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        return SSL.Connection(self.context, None)


class TlsFactory(TLSMemoryBIOFactory):
    """A factory that adds TLS; a client for which ``admit(address)`` is False gets no answer."""

    protocol = serving()
    noisy = False

    def __init__(
        self, context: SSL.Context, inner: Any, admit: Callable[[Any], bool], clock: Any
    ) -> None:
        super().__init__(Serving(context), False, inner, clock)
        self.admit = admit

    def buildProtocol(self, addr: Any) -> Any:
        """Return the protocol, or None to close a connection that is not admitted."""
        return super().buildProtocol(addr) if self.admit(addr) else None


# -- the client's side -----------------------------------------------------------


@implementer(IOpenSSLClientConnectionCreator)
class Pinning:
    """The factory of client-side TLS connections; it does not check the server's certificate."""

    def __init__(self, host: str, pair: Pair | None = None) -> None:
        self.context = _context()
        self.context.set_verify(SSL.VERIFY_NONE)
        if pair is not None:  # the server asks for a certificate
            _use(self.context, pair)
        self.context.set_alpn_protos([HTTP_1_1])
        self.name = None if is_address(host) else host.encode("idna")

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection = SSL.Connection(self.context, None)
        if self.name is not None:
            connection.set_tlsext_host_name(self.name)
        return connection


class PinnedCreator(Pinning):
    """A factory whose handshakes fail unless the server has the pinned certificate.

    It is for clients that cannot check the certificate after the handshake, such as treq.
    """

    def __init__(self, host: str, pin: str, pair: Pair) -> None:
        super().__init__(host, pair)

        def is_pinned(_: Any, certificate: Any, error: int, depth: int, good: int) -> bool:
            der = certificate.to_cryptography().public_bytes(serialization.Encoding.DER)
            return fingerprint_of_der(der) == pin

        self.context.set_verify(SSL.VERIFY_PEER, is_pinned)


class Mismatch(Unreachable):
    """The error when the peer's certificate is not pinned; ``presented`` is its fingerprint."""

    def __init__(self, presented: str) -> None:
        super().__init__(502, "certificate_mismatch")
        self.presented = presented


@implementer(IHandshakeListener)
class _Secure(UpstreamConnection):
    """The client protocol that reports the finished handshake to its ``_Attempt``."""

    def __init__(self, pool: Pool, attempt: _Attempt) -> None:
        super().__init__(pool)
        self.attempt = attempt

    def handshakeCompleted(self) -> None:
        self.attempt.handshaken(self, peer_fingerprint(self.transport))

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        super().connectionLost(reason)
        self.attempt.on_connection_lost(reason)


class _Attempt(protocol.ClientFactory):
    """One connection attempt; its Deferred fires with the connection, or fails with Unreachable."""

    noisy = False

    def __init__(self, pool: Pool, pins: Collection[str], clock: Any, timeout_s: float) -> None:
        self.pool, self.pins = pool, pins
        self.result: Deferred[Any] | None = Deferred()
        self.connection: _Secure | None = None
        self.timer = clock.callLater(timeout_s, self._late)

    def buildProtocol(self, addr: Any) -> Any:
        self.connection = _Secure(self.pool, self)
        return self.connection

    def clientConnectionFailed(self, connector: Any, reason: Failure) -> None:
        self.on_connection_lost(reason)

    def handshaken(self, connection: _Secure, presented: str) -> None:
        """Compare the peer's certificate with the pins before any request byte is sent."""
        if presented in self.pins:
            self._settle(connection)
        else:
            self._settle(Failure(Mismatch(presented)))
            connection.abort()

    def on_connection_lost(self, reason: Failure) -> None:
        log.debug("a TLS connection failed: {why}", why=reason.getErrorMessage())
        self._settle(Failure(Unreachable(self.pool.status, self.pool.code)))

    def _late(self) -> None:
        self._settle(Failure(Unreachable(self.pool.status, self.pool.code)))
        if self.connection is not None:
            self.connection.abort()

    def _settle(self, outcome: Any) -> None:
        result, self.result = self.result, None
        if self.timer.active():
            self.timer.cancel()
        if result is not None:
            result.callback(outcome)
        elif isinstance(outcome, _Secure):
            outcome.abort()


class _PinnedTLS(TLSMemoryBIOFactory):
    protocol = connecting()
    noisy = False


def pinned(
    reactor: Any,
    host: str,
    port: int,
    pins: Collection[str],
    *,
    timeout_s: float,
    bind: str | None = None,
    pair: Pair | None = None,
) -> Any:
    """Return a function ``connect`` for a Pool; it opens TLS connections to ``host``.

    The host's certificate must have one of the fingerprints ``pins``. ``bind`` is the local address
    of outgoing connections. ``pair`` is the client certificate that we present, if any.
    """
    creator = Pinning(host, pair)

    def connect(pool: Pool) -> Deferred[Any]:
        attempt = _Attempt(pool, pins, reactor, timeout_s)
        result = attempt.result
        factory = _PinnedTLS(creator, True, attempt, reactor)
        reactor.connectTCP(
            host, port, factory, timeout=timeout_s, bindAddress=(bind, 0) if bind else None
        )
        return result  # type: ignore[return-value]  # only _settle clears it

    return connect
