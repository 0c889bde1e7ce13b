"""Helpers for attacks: connections from chosen addresses, and other players' waiting times."""

import socket
import ssl
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.request import urlopen

from tests.live.edge_host import DEADLINE_S, Host

NEWCOMER = "127.0.0.99"
GET = b"GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def arrive(port: int, address: str = "127.0.0.1") -> socket.socket:
    """Open a TCP connection from ``address``."""
    return socket.create_connection(("127.0.0.1", port), DEADLINE_S, (address, 0))


def over_tls(raw: socket.socket) -> ssl.SSLSocket:
    """Wrap a socket in TLS and accept any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(raw)


def newcomer_s(host: Host, address: str = NEWCOMER) -> float:
    """Return the seconds that a new player's connection, TLS handshake and request take."""
    began = time.monotonic()
    with arrive(host.gateway_port, address) as raw, over_tls(raw) as player:
        player.sendall(GET)
        assert player.recv(4096).startswith(b"HTTP/1.1 200 ")
    return time.monotonic() - began


def median_s(wait: Callable[[], float], times: int = 7) -> float:
    return statistics.median(wait() for _ in range(times))


def waits_s(
    wait: Callable[[], float], under_way: Callable[[], bool], least: int = 5, pause_s: float = 0.0
) -> list[float]:
    """Measure waiting times while the attack runs; fail if fewer than ``least`` were measured.

    ``pause_s`` is the pause between two measurements; without a pause the measuring client would
    itself be rate-limited.
    """
    waits = []
    while under_way():
        waits.append(wait())
        time.sleep(pause_s)
    assert len(waits) >= least, f"the attack was over after {len(waits)} waits"
    return waits


def figures(port: int) -> dict[str, float]:
    """Return every metric that a service shows on METRICS_PORT, with its value."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as reply:
        lines = reply.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(number) for name, _, number in pairs}


@contextmanager
def at_the_same_time(*attacks: Callable[[], object]) -> Iterator[None]:
    """Run each attack in its own thread and wait until all of them end by themselves."""
    threads = [threading.Thread(target=attack, daemon=True) for attack in attacks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(DEADLINE_S)


@contextmanager
def until_over(*attacks: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run each attack in its own thread until the ``with`` block ends.

    The end of the block sets the event that each attack receives, so the attacks last as long as
    the block on any machine. Each attack also has its own time limit.
    """
    over = threading.Event()
    with at_the_same_time(*[partial(attack, over) for attack in attacks]):
        try:
            yield
        finally:
            over.set()
