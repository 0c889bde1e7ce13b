"""All services write their JSON log lines in one schema, shown in docs/owners/logs.md."""

import importlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import orjson
from twisted.internet.task import Clock
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.proxy_policy import Gateway
from svcserver.relay.service import write_log_line
from svcserver.web.logs import LogLines, json_lines, standard_lines
from svcserver.web.serving import top_service

SERVICES = ("metagame", "deploy", "content", "gateway", "allowlist", "relay", "stack")
TABLE = Path(__file__).parents[2] / "docs" / "owners" / "logs.md"
SHARED = ("time", "level", "namespace", "message")


def observer(service: str) -> LogLines:
    """Return a log observer that writes JSON, made by the function that the module calls."""
    source = Path(str(importlib.import_module(f"svcserver.{service}.service").__file__))
    words = set(re.findall(r"\b(json_lines|standard_lines|top_service)\(", source.read_text()))
    [maker] = words  # each service calls one of these functions, and builds no observer itself
    if maker == "json_lines":
        return json_lines("info")
    if maker == "standard_lines":
        return standard_lines(production=True, level="info")
    named = {"service": "stack"} if service == "stack" else {}
    return top_service(Clock(), production=True, **named).lines


class SchemaTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.out = io.StringIO()
        self.patch(sys, "stdout", self.out)
        self.patch(sys, "stderr", self.out)

    def lines(self, service: str, level: LogLevel = LogLevel.info, **fields: Any) -> dict[str, Any]:
        self.out.seek(0), self.out.truncate()
        lines = observer(service)
        Logger("svcserver.x.y", observer=lines).emit(level, "{n} of 7", n=3, **fields)
        lines.flush()
        [line] = self.out.getvalue().splitlines()
        result: dict[str, Any] = orjson.loads(line)
        return result

    def test_the_same_event_is_the_same_line_of_every_service(self) -> None:
        for service in SERVICES:
            line = self.lines(service, odd="a\nb")
            self.assertRegex(line.pop("time"), r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
            self.assertEqual(line.pop("service", None), "stack" if service == "stack" else None)
            wanted = {"level": "info", "namespace": "svcserver.x.y", "message": "3 of 7"}
            self.assertEqual(line, {**wanted, "n": 3, "odd": "a\\x0ab"}, service)

    def test_failures_have_the_same_levels_and_a_traceback(self) -> None:
        for service in SERVICES:
            for level in (LogLevel.warn, LogLevel.error, LogLevel.critical):
                line = self.lines(service, level, log_failure=Failure(ZeroDivisionError("x")))
                self.assertEqual(line["level"], level.name, service)
                self.assertIn("ZeroDivisionError", line["traceback"])

    def test_lines_of_requests_that_are_no_events_have_the_same_members(self) -> None:
        gateway = json_lines("info")
        gateway.write_info_line(Gateway.__module__, "request", '"ip":"a"')
        gateway.flush()
        relay = standard_lines(production=True, level="info")
        write_log_line(relay, "GET / 200 1 ms")
        relay.flush()
        first, second = (orjson.loads(line) for line in self.out.getvalue().splitlines())
        self.assertEqual(tuple(first), (*SHARED, "ip"))
        self.assertEqual(tuple(second), SHARED)
        self.assertEqual(second["namespace"], "svcserver.relay.proxy_policy")

    def test_the_table_names_every_shared_member(self) -> None:
        named = re.findall(r"^\| `(\w+)` \|", TABLE.read_text(), re.MULTILINE)
        self.assertEqual(named[: len(SHARED)], list(SHARED))
        self.assertEqual(named[len(SHARED) :], ["service", "traceback"])
