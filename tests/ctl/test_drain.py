"""``svcctl drain off`` right after an upgrade, before the metagame listens."""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Thread
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import maintenance
from svcserver.ctl.as_owner import NobodyListens, Owner, post_json
from svcserver.ctl.maintenance import START_S, TRY_S
from svcserver.ctl.output import Failed
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves

STATUS = {"drain": None, "hunts": 0, "playersOnline": 0}
OFF = ("drain", "off", "--reason", "it is in")


class DrainOffTests(HostCase):
    """Tests with a clock that advances only when the command sleeps."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.requests: list[tuple[str, Any, str]] = []
        waits = maintenance._once_it_listens

        def on_our_clock(act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
            return waits(act, lambda: self.now, self.sleep)

        self.patch(maintenance, "_once_it_listens", on_our_clock)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answers(self, refusals: int, otherwise: Exception | None = None) -> None:
        """Let the metagame refuse the first ``refusals`` connections.

        Then it answers or, if ``otherwise`` is given, fails with this error.
        """

        def act(owner: object, route: str, body: Any, reason: str = "") -> Any:
            self.requests.append((route, body, reason))
            if len(self.requests) <= refusals:
                raise NobodyListens("the metagame does not answer")
            if otherwise is not None:
                raise otherwise
            return STATUS

        self.patch(Owner, "post", act)

    @proves("svcctl drain, update when-empty")
    def test_a_metagame_that_starts_is_waited_for(self) -> None:
        self.answers(3)
        ran = self.ctl(*OFF, "--json")
        self.assertEqual((ran.status, ran.data, self.now), (0, STATUS, 1000 + 3 * TRY_S))
        self.assertIn("does not answer yet; waiting up to 60 s", ran.line)
        self.assertEqual(self.requests, [("DashboardDrain", {"On": False}, "it is in")] * 4)

    def test_a_metagame_that_answers_is_not_waited_for(self) -> None:
        self.answers(0)
        ran = self.ctl(*OFF)
        self.assertEqual((ran.status, ran.err, self.now), (0, "", 1000))
        self.assertIn("new hunts may begin", ran.out)

    def test_the_wait_has_an_end(self) -> None:
        self.answers(10**6)
        ran = self.ctl(*OFF)
        self.assertEqual((ran.status, self.now), (1, 1000 + START_S))
        waits, why = ran.err.splitlines()
        self.assertIn("waiting up to 60 s", waits)
        self.assertEqual(why, "svcctl: the metagame does not answer")

    def test_an_error_other_than_no_answer_ends_the_retries(self) -> None:
        self.answers(1, Failed("no such route"))
        self.assertEqual(self.ctl(*OFF).status, 1)
        self.assertEqual((len(self.requests), self.now), (2, 1000 + TRY_S))


class RefusedTests(SynchronousTestCase):
    def test_closed_port_differs_from_a_server_that_hangs_up(self) -> None:
        with socket.socket() as held:  # bound, so that no other program takes the port
            held.bind(("127.0.0.1", 0))
            base = f"http://127.0.0.1:{held.getsockname()[1]}"
            refused = self.assertRaises(NobodyListens, post_json, base, "/", {}, {}, "it")
            self.assertIn(f"it does not answer on {base}: ", refused.message)
            held.listen()
            hangs_up = Thread(target=lambda: held.accept()[0].close())
            hangs_up.start()
            broken = self.assertRaises(Failed, post_json, base, "/", {}, {}, "it")
            hangs_up.join()
        # the request may have arrived, so it is not repeated
        self.assertNotIsInstance(broken, NobodyListens)
