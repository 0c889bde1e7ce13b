"""Log lines: each event is one line, even with hostile text; LOG_LEVEL filters the lines."""

import io
import logging
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.web.logs import FLUSH_S, JsonLines, LibraryLogs, LogLines, level_word
from tests.support.nasty import NASTY, unsafe_in
from tests.support.proves import proves


def event(level: LogLevel = LogLevel.info, **fields: Any) -> dict[str, Any]:
    return {"log_time": 1.5, "log_level": level, "log_namespace": "svcserver.x", **fields}


def lines(*events: dict[str, Any], **how: Any) -> list[str]:
    out = io.StringIO()
    log = LogLines(out, **how)
    for event in events:
        log(event)
    return out.getvalue().splitlines()


class LineTests(SynchronousTestCase):
    def test_a_line_has_its_time_level_source_and_message(self) -> None:
        [line] = lines(event(log_format="{what} ready", what="metagame"))
        self.assertEqual(line, "1970-01-01T00:00:01.500Z info x: metagame ready")

    @proves("NODE_ENV=production: JSON logs")
    def test_production_lines_are_json_with_the_fields(self) -> None:
        [line] = lines(
            event(log_format="{n} of {all}", n=1, all=[2], huge=2**70, half=0.5, yes=True),
            as_json=True,
        )
        entry = orjson.loads(line)
        self.assertEqual(entry["message"], "1 of [2]")
        self.assertEqual(
            (entry["n"], entry["all"], entry["half"], entry["yes"]), (1, "[2]", 0.5, True)
        )
        self.assertEqual(entry["huge"], str(2**70))

    @given(st.text(st.characters(), max_size=80))
    @settings(max_examples=80, deadline=None)
    def test_foreign_text_cannot_add_lines_or_control_a_terminal(self, text: str) -> None:
        for as_json in (False, True):
            result = lines(event(log_format="{text}", text=text), as_json=as_json)
            self.assertEqual(len(result), 1)
            self.assertTrue(result[0].isprintable())
            result[0].encode()

    @given(st.text(st.characters(), max_size=80))
    @settings(max_examples=40, deadline=None)
    def test_foreign_text_is_escaped_in_small_services_and_failures(self, text: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        log = JsonLines(out, err=err)
        log(event(log_format="{text}", text=text, huge=2**70, none=None))
        failed = event(LogLevel.error, log_format="x", log_failure=Failure(OSError(text)))
        log(failed)
        [line], [grave] = out.getvalue().splitlines(), err.getvalue().split("\n")[:-1]
        self.assertTrue(line.isprintable())
        entry = orjson.loads(line)
        self.assertEqual((entry["huge"], entry["none"]), (str(2**70), None))
        self.assertIn("OSError", orjson.loads(grave)["traceback"])
        "\n".join(lines(failed)).encode()

    def test_starting_and_stopping_factories_are_not_logged(self) -> None:
        for word in ("Starting", "Stopping"):
            noise = event(log_format=word + " factory {factory!r}", factory=self)
            self.assertEqual(lines(noise), [])

    def test_a_failure_shows_its_traceback_and_in_json_on_one_line(self) -> None:
        failed = event(LogLevel.critical, log_format="it broke", log_failure=Failure(OSError("x")))
        self.assertIn("OSError: x", "\n".join(lines(failed)))
        [line] = lines(failed, as_json=True)
        self.assertIn("OSError: x", orjson.loads(line)["traceback"])

    def test_no_traceback_can_look_like_a_line_of_the_log(self) -> None:
        forged = "1970-01-01T00:00:01.500Z info x: all is well"
        why = ValueError(f"{NASTY}\n{forged}\ud800")
        out = io.StringIO()
        LogLines(out)(event(LogLevel.critical, log_format="broke", log_failure=Failure(why)))
        for line in out.getvalue().split("\n")[1:-1]:
            self.assertEqual(unsafe_in(line), "")
            self.assertTrue(line.startswith("    "), line)
        self.assertIn(forged, out.getvalue())

    def test_a_broken_format_is_still_a_line(self) -> None:
        [line] = lines(event(log_format="{missing} {", other=1))
        self.assertIn("info x: ", line)


class LibraryTests(SynchronousTestCase):
    def test_a_library_warning_becomes_a_log_line(self) -> None:
        handler = LibraryLogs()
        record = logging.LogRecord("sqlalchemy.pool", logging.WARNING, "", 1, "a %s", ("b",), None)
        with capturedLogs() as events:
            handler.handle(record)
        [line] = lines(*events)
        self.assertTrue(line.endswith(" warn sqlalchemy.pool: a b"), line)

    def test_a_failure_logged_by_a_library_keeps_its_traceback(self) -> None:
        why = (OSError, OSError("x"), None)
        record = logging.LogRecord("psycopg", logging.ERROR, "", 1, "{odd}", None, why)
        with capturedLogs() as events:
            LibraryLogs().handle(record)
        self.assertIn("OSError: x", "\n".join(lines(*events)))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_the_library_handler_is_installed_once(self) -> None:
        root = logging.getLogger()
        self.patch(root, "handlers", [])
        LibraryLogs.install(), LibraryLogs.install()
        self.assertEqual(len(root.handlers), 1)


class LevelTests(SynchronousTestCase):
    def shown(self, word: str) -> list[str]:
        events = [event(level, log_format=level.name) for level in LogLevel.iterconstants()]
        return [line.rpartition(" ")[2] for line in lines(*events, level=level_word(word))]

    @proves("LOG_LEVEL")
    def test_each_log_level_hides_less_severe_lines(self) -> None:
        self.assertEqual(self.shown("trace"), ["debug", "info", "warn", "error", "critical"])
        self.assertEqual(self.shown("info"), ["info", "warn", "error", "critical"])
        self.assertEqual(self.shown("WARN"), ["warn", "error", "critical"])
        self.assertEqual(self.shown("error"), ["error", "critical"])
        self.assertEqual(self.shown("fatal"), ["critical"])
        self.assertEqual(self.shown("silent"), [])

    def test_ordinary_lines_are_gathered_and_warnings_written_at_once(self) -> None:
        out, clock = io.StringIO(), Clock()
        log = LogLines(out, clock=clock)
        log(event(log_format="one"))
        self.assertEqual(out.getvalue(), "")
        clock.advance(FLUSH_S)
        self.assertIn("one", out.getvalue())
        log(event(log_format="two"))
        log(event(LogLevel.warn, log_format="three"))
        self.assertEqual(len(out.getvalue().splitlines()), 3)
        self.assertEqual(clock.getDelayedCalls(), [])
