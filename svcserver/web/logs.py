"""Log observers, which write readable lines, or one JSON object per line.

Each object has the members of ``line_head`` and the event's own fields; docs/owners/logs.md lists
these members and fields.

Lines are collected and passed to the writer at most every ``FLUSH_S``. Lines of level ``warn`` and
above are passed immediately, so that the last lines of a crashing service are not lost.
"""

import logging
import sys
from functools import lru_cache
from typing import Any

from attrs import define, field
from twisted.logger import ILogObserver, Logger, LogLevel, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.kernel import json
from svcserver.kernel.foreign_text import shown, visible
from svcserver.kernel.system import epoch
from svcserver.kernel.times import iso
from svcserver.web.logwriter import LogDestination, LogWriter, writers

FLUSH_S = 0.2
_LEVELS = {
    "fatal": LogLevel.critical,
    "error": LogLevel.error,
    "warn": LogLevel.warn,
    "info": LogLevel.info,
    "debug": LogLevel.debug,
    "trace": LogLevel.debug,
    "silent": None,
}
_RANK = {LogLevel.debug: 0, LogLevel.info: 1, LogLevel.warn: 2, LogLevel.error: 3}
_LOWEST = {word: 5 if level is None else _RANK.get(level, 4) for word, level in _LEVELS.items()}
_PRIVATE = ("isError", "why", "format", "time", "system")  # of twisted.python.log
_NOISE = ("Starting factory {factory!r}", "Stopping factory {factory!r}")  # per connection
_LARGEST = 2**53  # integers that every JSON parser reads exactly


def level_word(text: str) -> str:
    """Read LOG_LEVEL; raises ValueError."""
    word = text.strip().lower()
    if word not in _LEVELS:
        raise ValueError(f"must be one of {', '.join(_LEVELS)}")
    return word


@implementer(ILogObserver)
@define
class LogLines:
    """The log observer of a service; ``out`` is usually standard output."""

    out: LogDestination
    as_json: bool = False
    level: str = "info"
    _waiting: list[str] = field(factory=list, init=False)
    _flushing: Any = field(default=None, init=False)
    clock: Any = None
    writers: list[LogWriter] = field(factory=list, kw_only=True)  # the writers that ``out`` uses
    service: str = field(default="", kw_only=True)  # named in JSON if several services share a log

    def __attrs_post_init__(self) -> None:
        for writer in self.writers:
            writer.line_of_dropped = self.line_of_dropped

    def __call__(self, event: dict[str, Any]) -> None:
        level = event.get("log_level", LogLevel.info)
        if not self.shows(level):
            return
        if event.get("log_namespace") == "log_legacy" and not event.get("isError"):
            return  # Twisted's own "starting on" and "closed"; ``Listening`` logs ``ready``
        if event.get("log_format") in _NOISE:
            return
        line = self._json(event) if self.as_json else self._readable(event)
        if rank(level) < _RANK[LogLevel.warn]:
            self.keep(line)
        else:
            self.write_now(line)

    def shows(self, level: Any) -> bool:
        """Return whether LOG_LEVEL permits lines of this level."""
        return _RANK.get(level, 4) >= _LOWEST[self.level]

    def keep(self, line: str) -> None:
        """Queue a complete line, which is soon written together with other lines."""
        self._waiting.append(line)
        if self.clock is None:
            self.flush()
        elif self._flushing is None:
            self._flushing = self.clock.callLater(FLUSH_S, self._due)

    def write_now(self, line: str) -> None:
        """Write the waiting lines and then this line, without delay."""
        self._waiting.append(line)
        self.flush()

    def flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if self._waiting:
            lines, self._waiting = self._waiting, []
            self.out.write("".join(lines))
            self.out.flush()

    def end(self) -> None:
        """Write every line immediately from now on, because the service has stopped."""
        self.flush()
        self.clock = None
        for writer in self.writers:
            writer.end()

    def dropped(self) -> int:
        """Return the number of lines dropped because of a stalled reader or a full disk."""
        return sum(writer.dropped() for writer in self.writers)

    def line_of_dropped(self, count: int) -> str:
        """Return the log line that reports ``count`` dropped lines."""
        event = {
            "log_time": epoch(),
            "log_level": LogLevel.warn,
            "log_namespace": __name__,
            "log_format": "{count} log lines were dropped: nobody read them, or the disk was full",
            "count": count,
        }
        return self._json(event) if self.as_json else self._readable(event)

    def _due(self) -> None:
        self._flushing = None
        self.flush()

    def _readable(self, event: dict[str, Any]) -> str:
        space = event.get("log_namespace", "-").removeprefix("svcserver.")
        level = event.get("log_level", LogLevel.info).name
        text = message_of(event) + trace_of(event)
        return f"{iso(event['log_time'])} {level} {space}: {text}\n"

    def _json(self, event: dict[str, Any]) -> str:
        level = event.get("log_level", LogLevel.info).name
        space = event.get("log_namespace", "-")
        return as_line(
            line_head(event["log_time"], level, space, message_of(event), self.service), event
        )


def line_head(
    time: float, level: str, namespace: str, message: str, service: str = ""
) -> dict[str, Any]:
    """Return the first members of each JSON line.

    ``service`` names the service that wrote the line; it is needed only in a log of several
    services.
    """
    named = {"service": service} if service else {}
    return {
        "time": iso(time),
        "level": level,
        **named,
        "namespace": namespace,
        "message": message,
    }


def as_line(line: dict[str, Any], event: dict[str, Any]) -> str:
    """Return ``line`` and the event's own fields as one line of JSON."""
    for name, value in event.items():
        if name not in line and name not in _PRIVATE and not name.startswith("log_"):
            line[name] = _value(value)
    if event.get("log_failure") is not None:
        line["traceback"] = trace_of(event)
    return json.dump(line).decode() + "\n"


def rank(level: Any) -> int:
    """Return 0 for debug, 1 for info, 2 for warn, 3 for error, 4 for anything more severe."""
    return _RANK.get(level, 4)


def message_of(event: dict[str, Any]) -> str:
    """Return the formatted message as one line of limited length."""
    pattern = event.get("log_format")
    try:
        text = pattern.format_map(event) if pattern is not None else formatEvent(event)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError):
        text = formatEvent(event)
    return shown(text)


def _value(value: Any) -> Any:
    """Return an event's field as a JSON value."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -_LARGEST <= value <= _LARGEST:
        return value
    return shown(str(value))


def trace_of(event: dict[str, Any]) -> str:
    """Return the traceback of an event's failure on separate lines, or "" without a failure.

    The lines are indented, so that no text in an exception can look like a log line.
    """
    failure = event.get("log_failure")
    if not isinstance(failure, Failure):
        return ""
    return "".join(f"\n    {visible(line)}" for line in failure.getTraceback().split("\n"))


def standard_lines(
    *, production: bool, level: str, clock: Any = None, service: str = ""
) -> LogLines:
    """Return the log observer of a service that ``twistd`` starts; it writes to standard output."""
    out, _, mine = writers()
    return LogLines(
        out, as_json=production, level=level, clock=clock, writers=mine[:1], service=service
    )


@lru_cache(maxsize=2)  # a busy service writes many lines in a millisecond
def _iso_ms(ms: int) -> str:
    return iso(ms / 1000)


@define
class JsonLines(LogLines):
    """A log observer that always writes JSON; warnings and errors go to standard error."""

    as_json: bool = True
    err: LogDestination = field(factory=lambda: sys.stderr)

    def write_info_line(self, namespace: str, message: str, members: str) -> None:
        """Write an ``info`` line directly, because a logger event would take more time.

        ``message`` and ``namespace`` must not have characters that JSON escapes; ``members`` is
        JSON text without its braces.
        """
        if self.shows(LogLevel.info):
            time = _iso_ms(round(epoch() * 1000))
            self.keep(
                f'{{"time":"{time}","level":"info","namespace":"{namespace}",'
                f'"message":"{message}",{members}}}\n'
            )

    def write_now(self, line: str) -> None:
        self.flush()
        self.err.write(line)
        self.err.flush()


def json_lines(level: str, clock: Any = None) -> JsonLines:
    """Return the log observer for a small service that ``twistd`` starts."""
    out, err, mine = writers()
    return JsonLines(out, level=level, clock=clock, err=err, writers=mine)


class LibraryLogs(logging.Handler):
    """The handler that passes libraries' ``logging`` warnings and errors to Twisted's logger."""

    def emit(self, record: logging.LogRecord) -> None:
        level = LogLevel.levelWithName("warn" if record.levelno < logging.ERROR else "error")
        failure = Failure(record.exc_info[1]) if record.exc_info and record.exc_info[1] else None
        Logger(record.name).emit(
            level,
            "{text}",
            text=record.getMessage(),
            **({"log_failure": failure} if failure else {}),
        )

    @classmethod
    def install(cls) -> None:
        """Pass libraries' ``logging`` warnings to our log; installed once per process."""
        root = logging.getLogger()
        if not any(isinstance(handler, cls) for handler in root.handlers):
            root.addHandler(cls(logging.WARNING))
