"""Unique request heads with many fields: the cache of parsed heads must stay bounded.

Real processes are needed because the memory of the service is measured.
"""

import socket
import ssl
from pathlib import Path

import pytest

from tests.live.attacks.support import arrive, over_tls
from tests.live.edge_host import memory_of, running
from tests.support.processes import metagame

pytestmark = pytest.mark.live

HEADS = 2_200  # without a limit, caching them needs far more than MOST
FIELDS, FEWER = 230, 90  # fields per head; FEWER is the tiny upstream's maximum
NAMES = 450  # in a Connection field
MOST = 64 << 20  # bytes of memory that may be added
AT_ONCE = 20  # requests that are sent before their answers are read


def heads(fields: int) -> list[bytes]:
    """Return request heads that are about as long as the cache accepts."""
    width = 1_900 // fields - 6
    many = b"".join(b"A%d:%0*d\r\n" % (number % 10, width, number) for number in range(fields))
    start = b"HEAD /svc/api/ServerStatus HTTP/1.1\r\nHost: localhost\r\nB: %05d\r\n"
    return [start % number + many + b"\r\n" for number in range(HEADS)]


def listing(names: int) -> list[bytes]:
    """Return heads whose Connection field names ``names`` other fields."""
    many = b",".join(b"%x" % (number + 256) for number in range(names))
    start = b"HEAD /svc/api/ServerStatus HTTP/1.1\r\nHost: localhost\r\nB: %05d\r\n"
    return [start % number + b"Connection: " + many + b"\r\n\r\n" for number in range(HEADS)]


def send_all(connection: socket.socket | ssl.SSLSocket, every: list[bytes]) -> None:
    """Send every head and assert that each is answered with 200."""
    assert len(every[0]) < 2_048
    for at in range(0, HEADS, AT_ONCE):
        connection.sendall(b"".join(every[at : at + AT_ONCE]))
        received = b""
        while received.count(b"\r\n\r\n") < AT_ONCE:
            more = connection.recv(65_536)
            assert more, received
            received += more
        assert received.count(b"HTTP/1.1 200 ") == AT_ONCE, received[:300]


# slow: thousands of requests, each of 90 fields
def test_the_gateway_remembers_no_more_than_its_bound(tmp_path: Path) -> None:
    plenty = {"GATEWAY_RATE_GENERAL": "100000,100000"}
    with (
        running(tmp_path, **plenty) as host,
        over_tls(arrive(host.gateway_port)) as connection,
    ):
        before = memory_of(host.gateway)
        send_all(connection, heads(FEWER))
        send_all(connection, listing(NAMES))
        assert memory_of(host.gateway) - before < MOST


def test_the_metagame_remembers_no_more_than_its_bound(tmp_path: Path) -> None:
    with metagame(tmp_path, LOG_LEVEL="error") as service, arrive(service.port) as connection:
        assert service.process is not None
        before = memory_of(service.process)
        send_all(connection, heads(FIELDS))
        send_all(connection, listing(NAMES))
        assert memory_of(service.process) - before < MOST
