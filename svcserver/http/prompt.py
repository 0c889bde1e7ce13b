"""Small writes leave at once, without a round through the reactor.

Twisted sends when the poller says that the socket takes bytes, which costs two calls to the
poller and a turn of the loop for every answer. A socket with nothing waiting nearly always
takes a small one at once; whatever it does not take goes the ordinary way, errors too.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.tcp import Connection

SMALL = 8 * 1024  # bytes; larger ones are better gathered by the transport


def send(transport: Any, data: bytes, at_most: int = SMALL) -> None:
    """Write to the transport, at once where that is possible; never calls back."""
    if (
        len(data) <= at_most
        and isinstance(transport, Connection)
        and transport.connected
        and not transport.disconnecting
        and not transport.dataBuffer
        and not transport._tempDataBuffer
        and not transport._writeDisconnecting
        and not transport.TLS
    ):
        try:
            sent = transport.socket.send(data)
        except OSError:
            sent = 0  # it is full, or the connection is lost: the reactor finds out
        if sent == len(data):
            return
        data = data[sent:]
    transport.write(data)
