"""A client that stops reading is disconnected, and the service's memory stays flat.

Real processes are needed because the tests measure the memory of the service alone.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.chat.sockets import Talker
from tests.support.processes import Service, eventually, free_port, metagame, register
from tests.support.proves import proves

pytestmark = pytest.mark.live

SPEAKERS = 30
LINE = "🐉" * 2_048  # the longest body, in its most bytes
LINES = 60  # what each player may send at once
MOST = 100  # lines of each until one who reads nothing is cut
GROWTH_KIB = 8 * 1024  # of 24 MiB sent; on a busy machine the speakers also read late


def enter(service: Service, port: int, name: str) -> Talker:
    """Connect a player to the city room."""
    player = register(service, name)
    made = Talker(port, player["id"], name).log_in(player["token"])
    assert 'code="110"' in made.join("City-1")
    return made


@contextmanager
def drained(talkers: list[Talker]) -> Iterator[None]:
    """Read and discard what the players receive until their sockets are closed."""

    def drain(wire: socket.socket) -> None:
        with suppress(OSError):
            while wire.recv(1 << 20):
                pass

    readers = [Thread(target=drain, args=(reader.wire,)) for reader in talkers]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        for talker in talkers:
            with suppress(OSError):
                talker.wire.shutdown(socket.SHUT_RDWR)
        for reader in readers:
            reader.join()


# slow: players talk until the backlog of one who reads nothing is full
@proves("chat: 256 KiB backlog", "limit: Chat")
def test_a_stalled_reader_is_cut_within_8_mib_and_the_room_talks_on(tmp_path: Path) -> None:
    port = free_port()
    environ = {"CHAT": "1", "CHAT_PORT": str(port), "CHAT_MESSAGE_RATE": "1000,1000"}
    with metagame(tmp_path, **environ) as service, ExitStack() as wires:
        eventually(lambda: "chat: listening on" in service.log)
        speakers = [enter(service, port, f"Speaker_{number}") for number in range(SPEAKERS)]
        for speaker in speakers:
            wires.callback(speaker.wire.close)

        def count_lines() -> int:
            return service.log.count("message room=")

        def until_heard(lines: int) -> None:
            eventually(lambda: count_lines() >= lines)

        with drained(speakers):
            # while all clients read, memory grows by some 12 MiB in 1,800 lines, and then stays
            say(speakers, LINES)
            until_heard(SPEAKERS * LINES)
            stalled = enter(service, port, "Stalled_1")
            wires.callback(stalled.wire.close)
            stalled.wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            before = most = service.rss() // 1024
            for _ in range(MOST):
                reply = count_lines() + SPEAKERS
                say(speakers, 1)
                until_heard(reply)  # otherwise lines would wait in the speakers' sockets
                most = max(most, service.rss() // 1024)
                if "reason=backlog" in service.log:
                    break
            reply = count_lines()
            say(speakers, 1)
            until_heard(reply + 1)
            most = max(most, service.rss() // 1024)
        assert most - before < GROWTH_KIB, f"{before} KiB grew to {most} KiB"
        closed = [line for line in service.log.splitlines() if "reason=backlog" in line]
        assert len(closed) == 1 and stalled.account in closed[0]
        assert "Traceback" not in service.log


def say(speakers: list[Talker], lines: int) -> None:
    """Let each speaker send ``lines`` long lines."""
    for _ in range(lines):
        for speaker in speakers:
            speaker.say("City-1", LINE)
