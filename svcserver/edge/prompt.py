"""Small writes leave at once, without a round through the reactor.

Twisted sends when the poller says that the socket takes bytes, which costs two calls to the
poller and a turn of the loop for every answer. A socket with nothing waiting nearly always
takes a small one at once; whatever it does not take goes the ordinary way, errors too.
"""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL
from twisted.internet.tcp import Connection
from twisted.protocols.tls import TLSMemoryBIOProtocol

SMALL = 8 * 1024  # bytes; larger ones are better gathered by the transport
_RECORDS = 2**15  # bytes taken from OpenSSL at a time


def send(transport: Any, data: bytes) -> None:
    """``transport.write``, at once where that is possible; never calls back."""
    if (
        len(data) <= SMALL
        and isinstance(transport, Connection)
        and transport.connected
        and not transport.disconnecting
        and not transport.dataBuffer
        and not transport._tempDataBuffer
        and not transport._writeDisconnecting
        and not transport.TLS
    ):
        sent = transport.writeSomeData(data)
        if isinstance(sent, int):  # else the connection is lost: the reactor shall find out
            if sent == len(data):
                return
            data = data[sent:]
    transport.write(data)


class PromptTLS(TLSMemoryBIOProtocol):
    """TLS whose small records leave at once."""

    def _flushSendBIO(self) -> None:
        try:
            records = self._tlsConnection.bio_read(_RECORDS)
        except SSL.WantReadError:
            return
        send(self.transport, records)
