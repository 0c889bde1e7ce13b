"""A client that stops reading is disconnected, and the service's memory stays flat.

Real processes are needed because the tests measure the memory of the service alone.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from attrs import define

from tests.chat.sockets import Talker
from tests.support.processes import Service, eventually, free_port, metagame, register
from tests.support.proves import proves

pytestmark = pytest.mark.live

SPEAKERS = 30
LINE = "🐉" * 2_048  # the longest body, in its most bytes
FIRST = "🐉".encode()[:1]  # no other character begins with this byte
LINES = 60  # of each before one stops reading
MOST = 100  # lines of each until one who reads nothing is cut
GROWTH_KIB = 8 * 1024  # of 24 MiB sent; on a busy machine the speakers also read late


def enter(service: Service, port: int, name: str) -> Talker:
    """Connect a player to the city room."""
    player = register(service, name)
    made = Talker(port, player["id"], name).log_in(player["token"])
    assert 'code="110"' in made.join("City-1")
    return made


@define
class Reader:
    """A thread's count of the lines that one player has read."""

    wire: socket.socket
    characters: int = 0

    def read(self) -> None:
        """Read and discard everything until the socket is closed."""
        with suppress(OSError):
            while received := self.wire.recv(1 << 20):
                self.characters += received.count(FIRST)


@contextmanager
def drained(talkers: list[Talker]) -> Iterator[Callable[[int], None]]:
    """Read what the players receive; yield a function that waits until all have read some lines.

    The server closes the connection of a player who reads too late, so the test waits for them.
    """
    readers = [Reader(talker.wire) for talker in talkers]
    threads = [Thread(target=reader.read) for reader in readers]

    def until_read(lines: int) -> None:
        least = lines * len(LINE)
        eventually(lambda: all(reader.characters >= least for reader in readers))

    for thread in threads:
        thread.start()
    try:
        yield until_read
    finally:
        for reader in readers:
            with suppress(OSError):
                reader.wire.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


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

        with drained(speakers) as until_read:
            # while all clients read, memory grows by some 12 MiB in 1,800 lines, and then stays
            for number in range(1, LINES + 1):
                say(speakers)
                until_read(SPEAKERS * number)
            stalled = enter(service, port, "Stalled_1")
            wires.callback(stalled.wire.close)
            stalled.wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            before = most = service.rss() // 1024
            for number in range(LINES + 1, LINES + MOST):
                say(speakers)
                until_read(SPEAKERS * number)
                most = max(most, service.rss() // 1024)
                if "reason=backlog" in service.log:
                    break
            say(speakers)
            until_read(SPEAKERS * (number + 1))
            most = max(most, service.rss() // 1024)
        assert most - before < GROWTH_KIB, f"{before} KiB grew to {most} KiB"
        closed = [line for line in service.log.splitlines() if "reason=backlog" in line]
        assert len(closed) == 1 and stalled.account in closed[0]
        assert "Traceback" not in service.log


def say(speakers: list[Talker]) -> None:
    """Let each speaker send one long line."""
    for speaker in speakers:
        speaker.say("City-1", LINE)
