"""TLS for many small messages: each arrives in one step and leaves in one.

Twisted reads until OpenSSL has nothing more and then looks for an answer of OpenSSL's
own, and both looks end with an exception. Where exactly one record of data has come
neither can find anything. ``http/prompt.py`` says why small records leave at once.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.bindings.openssl.binding import Binding
from twisted.protocols.tls import TLSMemoryBIOProtocol

from svcserver.http.prompt import send

_lib: Any = Binding.lib
_unpack: Any = Binding.ffi.unpack
_RECORD = 2**14  # bytes of data in a record, at most
_RECORDS = 2**15  # bytes taken from OpenSSL at a time
_BUFFER: Any = Binding.ffi.new("char[]", _RECORDS)  # the reactor's thread alone uses it
_DATA = 23  # the type of a record; the length stands in its last two of five bytes


def is_one_record(raw: bytes) -> bool:
    """Whether ``raw`` is one whole record of data, should a record begin with it."""
    return len(raw) > 5 and raw[0] == _DATA and raw[3] << 8 | raw[4] == len(raw) - 5


class PromptTLS(TLSMemoryBIOProtocol):
    """TLS whose small records are read in one step, and leave at once.

    Where OpenSSL gives what was asked for, pyOpenSSL is passed by: its checks and its buffer for
    each call took three times as long as the four calls of a request. Whatever else OpenSSL
    says, Twisted asks it again and knows what to do.
    """

    def dataReceived(self, data: bytes) -> None:
        """A single record the short way, everything else the ordinary one."""
        if not self._handshakeDone or self._appSendBuffer or not is_one_record(data):
            super().dataReceived(data)
            return
        tls: Any = self._tlsConnection
        _lib.BIO_write(tls._into_ssl, data, len(data))
        size = _lib.SSL_read(tls._ssl, _BUFFER, _RECORDS)
        if size <= 0:
            self._flushReceiveBIO()  # not data after all
        elif not self._aborted:
            self.wrappedProtocol.dataReceived(_unpack(_BUFFER, size))

    def write(self, data: bytes) -> None:
        """Send it, unless the connection is on its way out; then Twisted decides."""
        if self.disconnecting:
            super().write(data)
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._lostTLSConnection:
            return
        tls: Any = self._tlsConnection
        for at in range(0, len(data), _RECORD):
            piece = data[at : at + _RECORD]
            sent = _lib.SSL_write(tls._ssl, piece, len(piece))
            if sent != len(piece):
                super()._write(data[at + max(0, sent) :])
                return
            self._flushSendBIO()

    def _flushSendBIO(self) -> None:
        tls: Any = self._tlsConnection
        size = _lib.BIO_read(tls._from_ssl, _BUFFER, _RECORDS)
        if size > 0:
            send(self.transport, _unpack(_BUFFER, size))


class ServingTLS(PromptTLS):
    """The server's end: a client that says nothing costs no handshake's memory."""

    _heard = False

    def _checkHandshakeStatus(self) -> None:
        """Twisted looks once before a byte has come, when OpenSSL would only make buffers."""
        if self._heard:
            super()._checkHandshakeStatus()
        self._heard = True
