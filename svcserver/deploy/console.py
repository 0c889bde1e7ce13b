"""The output of game servers as an owner sees it: whole lines, in colour, without secrets."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from attrs import frozen
from twisted.logger import Logger

from svcserver.kernel.redaction import redact

log = Logger()

PIECE = 64 * 1024  # bytes read at once
BEHIND = 4 * PIECE  # a reader that is further behind continues near the end
LAST_LINES = 200
MOST_LINES = 2_000  # in one part; the page shows no more
LONGEST = 1_000  # characters of a line
ENDED = "ended-"
MAX_ENDED = 200  # ended game servers whose last output stays, as many as launches in the history
MAX_ESCAPES = 50  # escape sequences of a line that is shown in colour
_SCAN = 4 * LONGEST  # characters of a line that are searched; only these can be shown

# an escape sequence of a terminal: a command (CSI), a text such as a title (OSC), or another one
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]?|\][^\x07\x1b]*+(?:\x07|\x1b\\)?|[^\[\]]?)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m\Z")


class OutputPart(TypedDict):
    """New lines of a game server's output; ``cursor`` marks the position after them.

    ``ESC [ ... m`` in a line sets colours. ``fresh`` is true if the cursor was not valid: the lines
    are then the last lines of the output. ``missed`` is true if some lines after the cursor are
    left out. ``ended`` is true if the server has ended; then no more lines follow.
    """

    lines: list[str]
    cursor: str
    fresh: bool
    missed: bool
    ended: bool


@frozen
class OutputFile:
    """The current output file of a game server, or the last output of an ended game server.

    ``start`` is the position of the file's first byte in the whole output of the server. ``series``
    identifies this output: a cursor from another series is not valid here.
    """

    path: Path
    series: str
    start: int
    ended: bool = False

    def after(self, cursor: str) -> OutputPart:
        """Return the whole lines after the cursor, or the last lines if the cursor is not valid."""
        series, _, position = cursor.partition(":")
        fresh = series != self.series or not (
            position.isascii() and position.isdigit() and len(position) < 20
        )
        wanted = None if fresh else int(position) - self.start
        data, offset, missed = self._read_piece(wanted)
        whole, newline, _ = data.rpartition(b"\n")
        lines = whole.split(b"\n") if whole or newline else []
        if not newline and len(data) == PIECE:
            # a part of a line could hold a part of a secret, which no pattern finds
            whole, lines, missed = data, [], True
        elif missed or (offset > 0 and self._is_inside_line(offset)):
            del lines[:1]
        most = LAST_LINES if fresh and not self.ended else MOST_LINES
        if len(lines) > most:  # such as thousands of empty lines
            lines, missed = lines[-most:], True
        at = self.start + offset + len(whole) + len(newline)
        return {
            "lines": [render_coloured(line) for line in lines],
            "cursor": f"{self.series}:{at}",
            "fresh": fresh,
            "missed": missed and not fresh,
            "ended": self.ended,
        }

    def _is_inside_line(self, offset: int) -> bool:
        """Return whether the offset is in the middle of a line, not at its start."""
        try:
            with self.path.open("rb") as file:
                file.seek(offset - 1)
                return file.read(1) != b"\n"
        except OSError:
            return False

    def last_lines(self) -> list[str]:
        """Return the last lines without colours; a line that is not finished yet is included."""
        data, _, cut = self._read_piece(None)
        lines = data.split(b"\n")[1 if cut else 0 :]
        if lines and not lines[-1]:
            lines.pop()
        return [plain(line) for line in lines[-LAST_LINES:]]

    def tail(self) -> tuple[bytes, int]:
        """Return the last whole lines, and the position of their first byte in the whole output."""
        most = PIECE - 1
        data = _end_of(self.path, most)
        if self.start > 0 and len(data) < most:  # a new file was started a moment ago
            data = _end_of(self.path.with_suffix(".old"), most - len(data)) + data
        at = self.start + _size_of(self.path) - len(data)
        if at > 0:  # a part of a line could hold a part of a secret
            begun = data.partition(b"\n")[2]
            at, data = at + len(data) - len(begun), begun
        return data, at

    def _read_piece(self, offset: int | None) -> tuple[bytes, int, bool]:
        """Return up to ``PIECE`` bytes, where they start, and whether bytes before were skipped.

        Without an offset, or if more than ``BEHIND`` bytes follow it, the end of the file is read.
        """
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                start = max(0, size - PIECE)
                if offset is not None and max(0, size - BEHIND) <= offset <= size:
                    start = offset
                file.seek(start)
                return file.read(PIECE), start, start != (offset or 0)
        except OSError:  # the server has printed nothing yet
            return b"", max(0, offset or 0), False


@frozen
class EndedOutputs:
    """The last output of each game server that has ended, stored in a small file for each server.

    A file's name contains the server's id, and the fields ``series`` and ``start`` of the
    ``OutputFile``. There are at most ``MAX_ENDED`` files. Without a folder, nothing is stored.
    """

    folder: Path | None

    def store(self, server_id: str, output: OutputFile) -> None:
        """Store the end of the server's output; if the file cannot be written, log the loss."""
        if self.folder is None:
            return
        data, at = output.tail()
        if not data:
            return
        end = b"" if data.endswith(b"\n") else b"\n"  # the last words of a crash are shown, too
        path = self.folder / f"{ENDED}{server_id}.{output.series}.{at}.log"
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data + end)
            self._delete_oldest()
        except OSError as error:
            text = "the output of the ended game server {id} is lost: {why}"
            log.warn(text, id=server_id, why=error.strerror)

    def find(self, server_id: str) -> OutputFile | None:
        """Return the last output of an ended server, or None if no output is stored."""
        return next((file for known, file in self._files() if known == server_id), None)

    def ids(self) -> set[str]:
        """Return the ids of the ended servers whose output is stored."""
        return {server_id for server_id, _ in self._files()}

    def _files(self) -> Iterator[tuple[str, OutputFile]]:
        names: list[str] = []
        if self.folder is not None:
            with suppress(OSError):  # no game server has started yet
                names = os.listdir(self.folder)
        for name in names:
            match name.split("."):
                case [first, series, at, "log"] if first.startswith(ENDED) and at.isdigit():
                    path = Path(f"{self.folder}/{name}")
                    file = OutputFile(path, series, int(at), ended=True)
                    yield first.removeprefix(ENDED), file

    def _delete_oldest(self) -> None:
        paths = [file.path for _, file in self._files()]
        for path in sorted(paths, key=lambda path: path.stat().st_mtime)[:-MAX_ENDED]:
            path.unlink()


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the server has printed nothing
        return 0


def _end_of(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - most))
            return file.read(most)
    except OSError:
        return b""


def plain(line: bytes) -> str:
    """Return a line of output as printable text without secrets and escape sequences."""
    return _redacted(_text(line))


def render_coloured(line: bytes) -> str:
    """Return a line of output as ``plain`` does, but with the line's colours.

    The colours are left out if the line has a secret, is too long or changes colours too often.
    """
    text = _text(line)
    without = _printable(_ESCAPE.sub("", text))
    redacted = _redacted(text)
    if redacted != without or not 0 < text.count("\x1b") <= MAX_ESCAPES:
        return redacted
    parts, at = [], 0
    for match in _ESCAPE.finditer(text):
        parts.append(_printable(text[at : match.start()]))
        if _COLOUR.match(match[0]):
            parts.append(match[0])
        at = match.end()
    return "".join([*parts, _printable(text[at:])])


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")[:_SCAN].replace("\t", "    ")


def _redacted(text: str) -> str:
    return redact(_printable(_ESCAPE.sub("", text)))[:LONGEST]


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)
