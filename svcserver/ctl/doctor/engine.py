"""Reads the facts about an engine of live state, over a blocking connection."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import hiredis
from attrs import frozen

from svcserver.board.address import Address
from svcserver.board.connection import Argument, encoded

MOST_BYTES = 1 << 20  # of what it tells


class EngineRefused(Exception):
    """The engine answered with an error."""


@frozen
class EngineFacts:
    """The facts about an engine: INFO, its clock, and two settings if it shows them.

    ``buffers`` is its ``client-output-buffer-limit``: for each kind of client the kind, bytes at
    which it is cut, bytes at which it is cut after so many seconds.
    """

    info: Mapping[str, str]
    seconds: float  # epoch
    save: str | None = None
    buffers: str | None = None
    is_open: bool = False  # it answers without a password


def ask(address: Address, patience_s: float) -> EngineFacts:
    """Return the facts about an engine; raises OSError or EngineRefused."""
    with closing(_connected(address, patience_s)) as line:
        connection = _Asked(line)
        if address.password:
            connection.of("AUTH", *((address.user,) if address.user else ()), address.password)
        connection.of("SELECT", address.db)
        text: bytes = connection.of("INFO")
        seconds, micros = connection.of("TIME")
        save, buffers = (
            _setting(connection, name) for name in ("save", "client-output-buffer-limit")
        )
    is_open = not address.password or _answers_anybody(address, patience_s)
    pairs = (row.partition(":") for row in text.decode("utf-8", "replace").splitlines())
    info = {name: value.strip() for name, colon, value in pairs if colon}
    return EngineFacts(info, int(seconds) + int(micros) / 1e6, save, buffers, is_open)


def _answers_anybody(address: Address, patience_s: float) -> bool:
    """Return whether the engine takes commands without a password."""
    with closing(_connected(address, patience_s)) as line:
        try:
            _Asked(line).of("GET", "svc:")
        except EngineRefused:
            return False
    return True


def _setting(connection: _Asked, name: str) -> str | None:
    try:
        reply = connection.of("CONFIG", "GET", name)
    except EngineRefused:  # where somebody else runs it
        return None
    return reply[1].decode() if reply and len(reply) == 2 else None


def _connected(address: Address, patience_s: float) -> socket.socket:
    plain = socket.create_connection((address.host, address.port), patience_s)
    if not address.tls:
        return plain
    try:
        context = ssl.create_default_context(cafile=address.ca)
        return context.wrap_socket(plain, server_hostname=address.host)
    except BaseException:
        plain.close()
        raise


class _Asked:
    """A connection to the engine with one command at a time."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._replies: Any = hiredis.Reader()

    def of(self, *command: Argument) -> Any:
        """Return the reply to a command; waits for it."""
        self._line.sendall(encoded(*command))
        size = 0
        while True:
            try:
                reply = self._replies.gets()
            except hiredis.ProtocolError:
                raise EngineRefused("no Valkey or Redis answers there") from None
            if reply is not False:
                break
            data = self._line.recv(65_536)
            size += len(data)
            if not data or size > MOST_BYTES:
                raise OSError("it ended the connection")
            self._replies.feed(data)
        if isinstance(reply, hiredis.ReplyError):
            raise EngineRefused(str(reply))
        return reply
