"""TLS for many small messages: each arrives in one step and leaves in one.

Twisted reads until OpenSSL has nothing more and then looks for an answer of OpenSSL's
own, and both looks end with an exception. Where exactly one record of data has come
neither can find anything. ``http/prompt.py`` says why small records leave at once.
"""

from __future__ import annotations

from OpenSSL import SSL
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOProtocol

from svcserver.http.prompt import send

_RECORDS = 2**15  # bytes taken from OpenSSL at a time
_DATA = 23  # the type of a record; the length stands in its last two of five bytes


def is_one_record(raw: bytes) -> bool:
    """Whether ``raw`` is one whole record of data, should a record begin with it."""
    return len(raw) > 5 and raw[0] == _DATA and raw[3] << 8 | raw[4] == len(raw) - 5


class PromptTLS(TLSMemoryBIOProtocol):
    """TLS whose small records are read in one step, and leave at once."""

    def dataReceived(self, data: bytes) -> None:
        """A single record the short way, everything else the ordinary one."""
        if not self._handshakeDone or self._appSendBuffer or not is_one_record(data):
            super().dataReceived(data)
            return
        self._tlsConnection.bio_write(data)
        try:
            text = self._tlsConnection.recv(_RECORDS)
        except SSL.Error:
            self._flushReceiveBIO()  # not data after all; Twisted knows what to do
            return
        if not self._aborted:
            ProtocolWrapper.dataReceived(self, text)

    def _flushSendBIO(self) -> None:
        try:
            records = self._tlsConnection.bio_read(_RECORDS)
        except SSL.WantReadError:
            return
        send(self.transport, records)


class ServingTLS(PromptTLS):
    """The server's end: a client that says nothing costs no handshake's memory."""

    _heard = False

    def _checkHandshakeStatus(self) -> None:
        """Twisted looks once before a byte has come, when OpenSSL would only make buffers."""
        if self._heard:
            super()._checkHandshakeStatus()
        self._heard = True
