"""A client that sends its body only after ``100 Continue``, through relay and gateway.

Real processes are needed because the tests use two proxies with TLS between them.
"""

import socket
from pathlib import Path

import pytest

from tests.live.attacks.support import arrive
from tests.live.edge_host import DEADLINE_S, running

pytestmark = pytest.mark.live
HEAD = (
    b"POST /save HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def wait_for(connection: socket.socket, end: bytes) -> bytes:
    """Read until the response contains these bytes or the connection ends."""
    connection.settimeout(DEADLINE_S)
    received = b""
    while end not in received and (more := connection.recv(65_536)):
        received += more
    return received


def test_the_gateway_decides_before_the_body_is_sent(tmp_path: Path) -> None:
    with running(tmp_path, GATEWAY_MAX_BODY_BYTES="1024") as host:
        with arrive(host.relay_port) as connection:
            connection.sendall(HEAD % 5)
            assert wait_for(connection, b"\r\n\r\n") == CONTINUE
            connection.sendall(b"hello")
            assert wait_for(connection, b"}").startswith(b"HTTP/1.1 200 ")
        with arrive(host.relay_port) as connection:
            connection.sendall(HEAD % 1025)
            reply = wait_for(connection, b"never")
        assert reply.startswith(b"HTTP/1.1 413 "), reply
        assert reply.count(b"HTTP/1.1 ") == 1
        assert [entry["body"] for entry in host.received if entry["path"] == "/save"] == ["hello"]
        host.gateway.terminate()
        host.gateway.wait(DEADLINE_S)
        with arrive(host.relay_port) as connection:
            connection.sendall(HEAD % 5)
            assert wait_for(connection, b"never").startswith(b"HTTP/1.1 502 ")
