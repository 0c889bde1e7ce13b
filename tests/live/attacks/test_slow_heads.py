"""Request heads that arrive byte by byte: parsing must not slow down other players.

Real processes are needed because the CPU of the service is measured.
"""

import os
import ssl
import threading
from pathlib import Path

import pytest

from tests.live.attacks.support import NEWCOMER, arrive, at_the_same_time, median_s, newcomer_s
from tests.live.edge_host import Host, running

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
]  # measures how long a newcomer waits, and the gateway's CPU time

HEAD = b"GET /other HTTP/1.1\r\nHost: localhost\r\nA: %b\r\nConnection: close\r\n\r\n"
LONG = HEAD % (b"a" * 16_300)  # a little less than the maximum size of a head
ATTACKERS, EACH = 3, 4  # concurrent connections; heads that each sends in turn
AT_MOST_CPU_S = 1.0  # of the gateway per head; at least 5 s if it searched anew at each byte
AT_LEAST_S = 1.0  # a longest wait below this is no finding on a busy machine
AT_MOST_TIMES = 60  # the newcomer's idle wait


def byte_by_byte(host: Host, address: str) -> bytes:
    """Send the long head as one TLS record per byte without pauses; return the response."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    tls = context.wrap_bio(coming, going)
    with arrive(host.gateway_port, address) as raw:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(going.read())
                coming.write(raw.recv(65_536))
        for at in range(len(LONG)):
            tls.write(LONG[at : at + 1])
        raw.sendall(going.read())
        while True:
            try:
                return tls.read(4096)
            except ssl.SSLWantReadError:
                coming.write(raw.recv(65_536))


def cpu_s(host: Host) -> float:
    """Return the CPU seconds that the gateway has used."""
    assert host.gateway is not None
    fields = Path(f"/proc/{host.gateway.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_heads_byte_by_byte_keep_nobody_waiting(tmp_path: Path) -> None:
    answers: list[bytes] = []
    with running(tmp_path) as host:
        idle = median_s(lambda: newcomer_s(host))
        before = cpu_s(host)
        running_still = threading.Semaphore(0)

        def attack(address: str) -> None:
            for _ in range(EACH):
                answers.append(byte_by_byte(host, address))
            running_still.release()

        attackers = [lambda n=n: attack(f"127.0.1.{n}") for n in range(1, ATTACKERS + 1)]
        waits: list[float] = []
        with at_the_same_time(*attackers):
            while len(waits) < 200 and not running_still.acquire(blocking=False):
                waits.append(newcomer_s(host, NEWCOMER))
        spent = (cpu_s(host) - before) / (ATTACKERS * EACH)
    assert [answer[:12] for answer in answers] == [b"HTTP/1.1 200"] * (ATTACKERS * EACH)
    assert len(waits) > 3  # while the attack ran
    assert max(waits) < max(AT_LEAST_S, AT_MOST_TIMES * idle), (max(waits), idle)
    assert spent < AT_MOST_CPU_S
