"""The log lines of the content server and the allowlist helper."""

import io
import json

from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.web.logs import JsonLines


class LogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.lines = JsonLines(self.out, as_json=True, err=self.err)
        self.log = Logger("svcserver.content.routes", observer=self.lines)

    def test_a_line_has_time_level_message_and_its_fields(self) -> None:
        self.log.info("download", path="a\nb", bytes=7, complete=True, range=None)
        line = json.loads(self.out.getvalue())
        self.assertRegex(line.pop("time"), r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
        self.assertEqual(
            line,
            {
                "level": "info",
                "namespace": "svcserver.content.routes",
                "message": "download",
                # escaped as in readable lines, so that no terminal interprets it
                "path": "a\\x0ab",
                "bytes": 7,
                "complete": True,
                "range": None,
            },
        )
        self.assertEqual(self.out.getvalue().count("\n"), 1)

    def test_warnings_and_errors_go_to_standard_error(self) -> None:
        self.log.warn("careful")
        self.log.error("broken")
        self.log.failure("defect", Failure(ZeroDivisionError("x")))
        levels = [json.loads(line)["level"] for line in self.err.getvalue().splitlines()]
        self.assertEqual(levels, ["warn", "error", "critical"])
        self.assertEqual(self.out.getvalue(), "")
        self.assertIn("ZeroDivisionError", self.err.getvalue())

    def test_twisted_connection_messages_are_not_logged(self) -> None:
        noise = Logger("twisted.internet.protocol.Factory", observer=self.lines)
        noise.info("Starting factory {factory!r}", factory=self)
        self.assertEqual(self.out.getvalue(), "")

    def test_the_level_is_a_threshold(self) -> None:
        self.lines.level = "warn"
        self.log.info("download")
        self.assertEqual(self.out.getvalue(), "")
