"""TLS for many small messages: each is read in one step and written in one step.

After each record, Twisted tries another read, and checks whether OpenSSL has bytes to send. Both
steps end with an exception. If exactly one data record has arrived, this module skips both steps.
``http/prompt.py`` explains why each message is written at once.

This module uses private parts of Twisted's TLS, pyOpenSSL and cryptography. An echo of 250 bytes
takes 13 us with these parts and 34 us without them. If one of these parts is missing, ``serving``
and ``connecting`` return Twisted's own protocol.
"""

from functools import cache
from typing import Any

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.http.prompt import send

_lib: Any = Binding.lib
_CALLS = ("SSL_read", "SSL_write", "BIO_read", "BIO_write")
_calls: list[Any] = [getattr(_lib, name, None) for name in _CALLS]
_ssl_read, _ssl_write, _bio_read, _bio_write = _calls
_unpack: Any = Binding.ffi.unpack
_RECORD = 2**14  # maximum bytes of data in a record
_RECORDS = 2**15  # bytes taken from OpenSSL at a time
_BUFFER: Any = Binding.ffi.new("char[]", _RECORDS)  # only the reactor's thread uses it
_ENDS = ("_ssl", "_into_ssl", "_from_ssl")  # attributes of pyOpenSSL's connection
TLS_PARTS = (
    *("_tlsConnection", "_appSendBuffer", "_handshakeDone", "_aborted", "_lostTLSConnection"),
    *("_write", "_flushReceiveBIO", "_flushSendBIO", "_checkHandshakeStatus"),
)
_DATA = 23  # the record type; bytes 4 and 5 of the header are the length


def is_usable(lib: Any = _lib, tls: Any = None) -> bool:
    """Return whether the libraries have all private parts that this module uses.

    ``tls`` is the protocol to check; by default, it is a new protocol of Twisted's own class.
    """
    tls = _unconnected() if tls is None else tls
    return (
        all(hasattr(lib, name) for name in _CALLS)
        and all(hasattr(tls, name) for name in TLS_PARTS)
        and all(hasattr(tls._tlsConnection, name) for name in _ENDS)
    )


@implementer(IOpenSSLServerConnectionCreator)
class _Creator:
    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        return SSL.Connection(SSL.Context(SSL.TLS_METHOD), None)


@cache
def _unconnected() -> Any:
    """Return Twisted's TLS protocol on a transport that has no peer."""
    nothing: Any = object()  # this connection uses neither its clock nor its transport
    factory = TLSMemoryBIOFactory(_Creator(), False, Factory(), nothing)
    tls: Any = TLSMemoryBIOProtocol(factory, Protocol())
    tls.makeConnection(nothing)
    return tls


def serving(usable: bool | None = None) -> type[TLSMemoryBIOProtocol]:
    """Return the protocol for the server side of a TLS connection."""
    return ServingTLS if (is_usable() if usable is None else usable) else TLSMemoryBIOProtocol


def connecting(usable: bool | None = None) -> type[TLSMemoryBIOProtocol]:
    """Return the protocol for the client side of a TLS connection."""
    return PromptTLS if (is_usable() if usable is None else usable) else TLSMemoryBIOProtocol


def is_one_record(raw: bytes) -> bool:
    """Return whether ``raw``, which starts with a TLS data record, is exactly that record."""
    return len(raw) > 5 and raw[0] == _DATA and raw[3] << 8 | raw[4] == len(raw) - 5


def _ends(tls: TLSMemoryBIOProtocol, state: dict[str, Any]) -> Any:
    """Return OpenSSL's connection, its input buffer and its output buffer."""
    connection: Any = tls._tlsConnection
    ends = state["_tls_ends"] = (connection._ssl, connection._into_ssl, connection._from_ssl)
    return ends


def _put(tls: TLSMemoryBIOProtocol, state: dict[str, Any], record: bytes) -> int:
    """Encrypt and send at most one TLS record; return the number of bytes that OpenSSL accepted."""
    if state["_lostTLSConnection"]:
        return len(record)  # the peer reads no more
    ssl, _, out = state.get("_tls_ends") or _ends(tls, state)
    sent: int = _ssl_write(ssl, record, len(record))
    if sent != len(record):
        return max(0, sent)
    size = _bio_read(out, _BUFFER, _RECORDS)
    if size > 0:
        send(state["transport"], _unpack(_BUFFER, size))
    return sent


class PromptTLS(TLSMemoryBIOProtocol):
    """TLS that reads a small record in one step and sends a small record immediately.

    The successful path bypasses pyOpenSSL, which is slower. If a direct call fails, Twisted calls
    OpenSSL again and handles the result.
    """

    _handshakeDone = _aborted = _lostTLSConnection = False

    def makeConnection(self, transport: Any) -> None:
        """Store flags such as ``_aborted`` in the instance's own dictionary.

        Lookups there are fast; Twisted's ``__getattr__`` makes other lookups many times slower.
        """
        state: dict[str, Any] = self.__dict__
        for name in ("_handshakeDone", "_aborted", "_lostTLSConnection", "disconnecting"):
            state[name] = False
        super().makeConnection(transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self.__dict__.pop("_tls_ends", None)  # this also frees OpenSSL's memory

    def dataReceived(self, data: bytes) -> None:
        """Decrypt a single TLS record directly; leave all other data to Twisted."""
        state = self.__dict__
        if not state["_handshakeDone"] or state["_appSendBuffer"] or not is_one_record(data):
            super().dataReceived(data)
            return
        ssl, into, _ = state.get("_tls_ends") or _ends(self, state)
        _bio_write(into, data, len(data))
        size = _ssl_read(ssl, _BUFFER, _RECORDS)
        if size <= 0:
            self._flushReceiveBIO()  # not data after all
        elif not state["_aborted"]:
            state["wrappedProtocol"].dataReceived(_unpack(_BUFFER, size))

    def write(self, data: bytes) -> None:
        """Send ``data`` directly; if the connection is closing, Twisted handles the call."""
        state = self.__dict__
        if state["disconnecting"]:
            super().write(data)
        elif 0 < len(data) <= _RECORD:
            sent = _put(self, state, data)
            if sent < len(data):
                super()._write(data[sent:])
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        for at in range(0, len(data), _RECORD):
            piece = data[at : at + _RECORD]
            sent = _put(self, self.__dict__, piece)
            if sent < len(piece):
                super()._write(data[at + sent :])
                return

    def _flushSendBIO(self) -> None:
        tls: Any = self._tlsConnection
        size = _bio_read(tls._from_ssl, _BUFFER, _RECORDS)
        if size > 0:
            send(self.transport, _unpack(_BUFFER, size))


class ServingTLS(PromptTLS):
    """The server side of TLS; it allocates no handshake memory before the client sends a byte."""

    _checked_once = False

    def _checkHandshakeStatus(self) -> None:
        """Do nothing at the first call, so that no buffers are allocated before the first byte."""
        if self._checked_once:
            super()._checkHandshakeStatus()
        self._checked_once = True
