"""A real gateway under abuse: limits apply, other players are served, and memory stays flat.

Real processes are needed because the tests measure the gateway's memory and CPU without those of
the attackers.
"""

import resource
import selectors
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.live.edge_host import DEADLINE_S, Host, memory_of, running
from tests.support.proves import proves
from tests.support.requirements import skip
from tests.support.watch import Watch

pytestmark = pytest.mark.live
CROWD = 2_048  # GATEWAY_MAX_CONNECTIONS as an owner gets it
FILES = CROWD + 512  # our descriptors: one for each connection, and some for other files
GROWTH = 24 << 20  # bytes of memory that a whole flood may cost for good
SOON_S, ENDED_S = 10.0, 20.0  # for an answer during the abuse, and until the abuser is disconnected
SOMEBODY = "127.0.0.2"  # another address than the abuser's
GET = b"GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@contextmanager
def many_files() -> Iterator[None]:
    """Raise the limit of open files in this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        raise skip("descriptors", f"the system allows {hard} files, and {FILES} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def edge(folder: Path, **settings: str) -> Iterator[Host]:
    """Run a host with short timeouts, which keep the tests short."""
    short = {"GATEWAY_HANDSHAKE_TIMEOUT_MS": "1000", "GATEWAY_HEADERS_TIMEOUT_MS": "1000"}
    with many_files(), running(folder, **(short | settings)) as host:
        yield host


def arrive(host: Host, address: str = "127.0.0.1") -> socket.socket:
    """Open a TCP connection to the gateway from ``address``."""
    return socket.create_connection(("127.0.0.1", host.gateway_port), DEADLINE_S, (address, 0))


def send(entry: socket.socket, data: bytes) -> None:
    """Send to a gateway that may already have closed this connection."""
    with suppress(OSError):
        entry.sendall(data)


def is_served(host: Host, address: str = SOMEBODY) -> bool:
    """Return whether a player from ``address`` gets a reply in time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Watch() as watch:
        try:
            with arrive(host, address) as raw, context.wrap_socket(raw) as player:
                player.sendall(GET)
                answer = player.recv(4096)
        except OSError:
            return False
    return answer.startswith(b"HTTP/1.1 200 ") and watch.seconds < SOON_S


def all_gone(connections: list[socket.socket]) -> bool:
    """Return whether the gateway closes every connection in time."""
    deadline = time.monotonic() + ENDED_S
    with selectors.DefaultSelector() as watched:
        for connection in connections:
            connection.setblocking(False)
            watched.register(connection, selectors.EVENT_READ)
        while watched.get_map() and time.monotonic() < deadline:
            for key, _ in watched.select(0.5):
                if is_over(key.fileobj):
                    watched.unregister(key.fileobj)
        return not watched.get_map()


def is_over(connection: object) -> bool:
    """Return whether the connection has ended; received data is discarded."""
    assert isinstance(connection, socket.socket)
    try:
        return connection.recv(65_536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


# slow: a crowd of connections, and five seconds until the silent ones go
@proves("limit: Open connections per address / in total")
def test_silent_connections_are_bounded_and_closed(tmp_path: Path) -> None:
    most = {"GATEWAY_MAX_CONNECTIONS_PER_IP": str(CROWD), "GATEWAY_RATE_CONNECT": "9999,99999"}
    with edge(tmp_path, **most, GATEWAY_HANDSHAKE_TIMEOUT_MS="5000") as host, ExitStack() as held:
        assert is_served(host)
        before = memory_of(host.gateway)
        crowd = [held.enter_context(closing(arrive(host))) for _ in range(CROWD)]
        assert is_served(host)  # the gateway has closed one of the idle connections
        assert memory_of(host.gateway) - before < CROWD * 50 * 1024
        assert all_gone(crowd)
        assert is_served(host)
        assert memory_of(host.gateway) - before < CROWD * 50 * 1024


@proves("limit: Open connections per address / in total")
def test_one_address_gets_its_share_of_connections_and_others_theirs(tmp_path: Path) -> None:
    with edge(tmp_path, GATEWAY_MAX_CONNECTIONS_PER_IP="16") as host, ExitStack() as held:
        stored = [held.enter_context(closing(arrive(host))) for _ in range(16)]
        turned_away = [held.enter_context(closing(arrive(host))) for _ in range(8)]
        assert all_gone(turned_away)
        assert is_served(host)
        assert all_gone(stored)
        assert is_served(host, "127.0.0.1")


@proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
def test_a_flood_of_connections_from_one_address_is_limited(tmp_path: Path) -> None:
    with edge(tmp_path, GATEWAY_RATE_CONNECT="20,1") as host:
        before = memory_of(host.gateway)
        for _ in range(1_500):
            arrive(host).close()
        assert not is_served(host, "127.0.0.1")
        assert is_served(host)
        assert memory_of(host.gateway) - before < GROWTH
    log = host.logs[0].read_text()  # the log is written in batches, and completely at the end
    assert "connect_rate" in log
    assert log.count("connection refused") < 20


@proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
def test_a_flood_of_requests_from_one_address_is_limited(tmp_path: Path) -> None:
    with edge(tmp_path, GATEWAY_RATE_GENERAL="30,60") as host, host.secure() as flood:
        count = 300
        ask = b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n"
        flood.sendall(ask * (count - 1) + GET)
        flood.settimeout(DEADLINE_S)
        received = b""
        while data := flood.recv(65_536):
            received += data
        assert received.count(b"HTTP/1.1 429 ") >= count - 60
        assert received.count(b"HTTP/1.1 429 ") + received.count(b"HTTP/1.1 200 ") == count
        assert is_served(host)


@proves("limit: back-pressure end to end")
def test_answers_that_nobody_reads_do_not_pile_up(tmp_path: Path) -> None:
    asks = b"GET /svc/x HTTP/1.1\r\nHost: a\r\n\r\n" * 500
    most = 64 << 20  # bytes of requests, more than any kernel keeps for a socket
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with edge(tmp_path) as host, socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        raw.connect(("127.0.0.1", host.gateway_port))
        before, sent = memory_of(host.gateway), 0
        with context.wrap_socket(raw) as greedy, pytest.raises(TimeoutError):
            greedy.settimeout(2.0)
            while sent < most:
                greedy.sendall(asks)
                sent += len(asks)
        assert memory_of(host.gateway) - before < GROWTH
        assert is_served(host)


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_garbage_in_place_of_a_handshake_costs_nothing(tmp_path: Path) -> None:
    most = {"GATEWAY_MAX_CONNECTIONS_PER_IP": "512", "GATEWAY_RATE_CONNECT": "9999,99999"}
    record = b"\x16\x03\x01\x40\x00" + b"\x01\x00\x3f\xfc" + b"\xff" * 16_380
    with edge(tmp_path, **most) as host:
        assert is_served(host)
        before = memory_of(host.gateway)
        for garbage in (b"\x00" * 4096, record, b"\x15\x03\x03\x00\x02\x02\x28", b"\x80\x2e\x01"):
            with ExitStack() as held:
                crowd = [held.enter_context(closing(arrive(host))) for _ in range(100)]
                for connection in crowd:
                    send(connection, garbage)
                assert is_served(host)
                assert all_gone(crowd)
        assert memory_of(host.gateway) - before < GROWTH
        assert "Traceback" not in host.logs[0].read_text()


@proves("gateway: 408, 431 request_timeout, headers_too_large")
def test_slow_senders_and_slow_readers_leave_room_for_others(tmp_path: Path) -> None:
    most = {"GATEWAY_REQUEST_TIMEOUT_MS": "2000", "GATEWAY_RATE_CONNECT": "9999,99999"}
    body = b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with edge(tmp_path, **most) as host, ExitStack() as held:
        slow = []
        for number in range(60):
            slow.append(held.enter_context(host.secure()))
            slow[-1].sendall(b"GET /slow HT" if number % 2 else body)
        before = memory_of(host.gateway)
        for _ in range(20):
            reader = held.enter_context(host.secure())
            reader.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for trickle in range(3):  # reading a byte now and then does not extend the time limit
            assert is_served(host)
            for connection in slow[trickle::10]:
                send(connection, b"x")
        assert memory_of(host.gateway) - before < 20 << 20
        for connection in slow:
            assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert is_served(host)
