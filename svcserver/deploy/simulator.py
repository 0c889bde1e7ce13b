"""``svc-gameserver-sim``: a simulated game server for demos and tests.

It has the command line of a game server. It binds the UDP port, answers every datagram, calls the
metagame with its key, and writes a file when it is ready. It ends when it is idle, or soon after
all players have left. They join with ``svc hello NAME`` and leave with ``svc goodbye NAME``.

    svc-gameserver-sim KEY PORT MAP BEHEMOTH MM_HUNT EXPECTED HOST:PORT [EXTRA...]

The extra arguments for tests are: ``-sim-exit=CODE`` ends immediately, ``-sim-hang`` never listens,
``-sim-crash-after=S`` ends with status 1, ``-sim-idle=S`` changes the idle time, ``-sim-deaf``
ignores SIGTERM. SVC_METAGAME_URL is the URL of the metagame.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from attrs import define, field, frozen

DEFAULT_METAGAME = "http://127.0.0.1:61000"
READY_FILE = "SVC_SERVER_READY_FILE"
IDLE_S = 50.0
EMPTY_S = 1.0  # after the last goodbye
MAX_NAMES = 64  # players present
NO_PLAYERS = "NO_EXPECTED_PLAYERS"  # of a city, which stays
PING = b"svc ping"
HELLO, GOODBYE = b"svc hello ", b"svc goodbye "
PERSISTENT_FROM = 8776  # servers on these ports do not end when empty
TICK_S = 0.25
CALL_S = 5.0


@frozen
class CommandLine:
    """The arguments of the launch command line, in order."""

    key: str = field(repr=False)
    port: int
    map: str
    behemoth: str
    matchmaker_hunt: str
    expected: str
    address: str
    extra: tuple[str, ...] = ()

    @classmethod
    def parse(cls, words: list[str]) -> CommandLine:
        """Parse the command line; raises SystemExit with a one-line message if it is invalid."""
        if words == ["--help"]:
            print(__doc__)
            raise SystemExit
        if len(words) < 7 or not words[1].isdigit():
            arguments = "KEY PORT MAP BEHEMOTH MM_HUNT EXPECTED HOST:PORT"
            raise SystemExit(f"usage: svc-gameserver-sim {arguments}")
        key, port, map_path, behemoth, hunt, expected, address, *extra = words
        return cls(key, int(port), map_path, behemoth, hunt, expected, address, tuple(extra))

    def number(self, name: str) -> float | None:
        """Return the number of a switch ``-sim-NAME=NUMBER``, or None if it was not given."""
        start = f"-sim-{name}="
        values = [word.removeprefix(start) for word in self.extra if word.startswith(start)]
        return float(values[0]) if values else None

    def has(self, name: str) -> bool:
        """Return whether the switch ``-sim-NAME`` was given."""
        return f"-sim-{name}" in self.extra


@define
class Guests:
    """The players who are connected to the simulated game server."""

    _present: set[bytes] = field(factory=set)
    _left: float | None = None  # when the last player left

    def note(self, datagram: bytes, now: float) -> None:
        """Record a datagram; a player's hello or goodbye changes who is connected."""
        if datagram.startswith(HELLO) and len(self._present) < MAX_NAMES:
            self._present.add(datagram.removeprefix(HELLO))
            self._left = None
        elif datagram.startswith(GOODBYE) and datagram.removeprefix(GOODBYE) in self._present:
            self._present.discard(datagram.removeprefix(GOODBYE))
            self._left = None if self._present else now

    def gone(self, now: float) -> bool:
        """Return whether all players left more than ``EMPTY_S`` ago."""
        return self._left is not None and now - self._left > EMPTY_S


def call_metagame(key: str, base: str) -> int:
    """Call the metagame with the game-server key; return the status, or 0 if no answer comes."""
    url = urlsplit(base)
    connection = http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=CALL_S)
    try:
        connection.request("POST", "/heartbeat", b"{}", {"x-svc-gameserver-apikey": key})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def serve(line: CommandLine, wire: socket.socket) -> None:
    """Answer datagrams until none has arrived for the idle time."""
    idle_s = line.number("idle")
    if idle_s is None:
        idle_s = float("inf") if line.port >= PERSISTENT_FROM else IDLE_S
    crash_s = line.number("crash-after")
    began = last_datagram = time.monotonic()
    guests = Guests()
    wire.settimeout(TICK_S)
    while time.monotonic() - last_datagram < idle_s:
        if line.expected != NO_PLAYERS and guests.gone(time.monotonic()):
            return
        if crash_s is not None and time.monotonic() - began > crash_s:
            raise SystemExit(1)
        try:
            datagram, sender = wire.recvfrom(2048)
        except TimeoutError:
            continue
        if datagram == PING:
            continue  # not a player: the deploy server checks whether we are frozen
        last_datagram = time.monotonic()
        guests.note(datagram, last_datagram)
        name = line.map.partition("?")[0].rpartition("/")[2]
        wire.sendto(b"svc-gameserver-sim " + name.encode() + b" " + datagram[:64], sender)


def main() -> None:
    """Run the simulated game server until it is idle or stopped."""
    line = CommandLine.parse(sys.argv[1:])
    ignore = signal.SIG_IGN if line.has("deaf") else lambda number, frame: sys.exit(0)
    signal.signal(signal.SIGTERM, ignore)
    at_once = line.number("exit")
    if at_once is not None:
        raise SystemExit(int(at_once))
    if line.has("hang"):
        signal.pause()
    wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    wire.bind(("0.0.0.0", line.port))  # noqa: S104 - players come from anywhere
    status = call_metagame(line.key, os.environ.get("SVC_METAGAME_URL", DEFAULT_METAGAME))
    print(
        f"listening on UDP {line.port}, map {line.map}, the metagame answered {status}", flush=True
    )
    if READY_FILE in os.environ:
        Path(os.environ[READY_FILE]).write_text(f"{os.getpid()}:{line.port}")
    serve(line, wire)
    print("no player is left; ending", flush=True)


if __name__ == "__main__":
    main()
