"""Small writes that are sent immediately, without waiting for the reactor's poller.

Twisted sends when the poller reports that the socket is writable. For every answer, this wait costs
two calls to the poller and one turn of the event loop. A socket with nothing buffered nearly always
accepts a small write immediately. Twisted handles any remaining bytes and all errors.

This module reads two private attributes of Twisted's transports. If a transport lacks one of them,
``send`` calls ``transport.write``.
"""

from typing import Any

from twisted.internet.tcp import Connection

SMALL = 8 * 1024  # bytes; the transport buffers larger writes better


def is_usable(transport: Any) -> bool:
    """Return whether the transport has the private attributes that ``send`` reads."""
    return hasattr(transport, "_tempDataBuffer") and hasattr(transport, "_writeDisconnecting")


def send(transport: Any, data: bytes, at_most: int = SMALL) -> None:
    """Write to the transport; send ``data`` of up to ``at_most`` bytes immediately if possible."""
    if (
        len(data) <= at_most
        and isinstance(transport, Connection)
        and is_usable(transport)
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
            sent = 0  # the socket is full or lost: the reactor will detect which
        if sent == len(data):
            return
        data = data[sent:]
    transport.write(data)
