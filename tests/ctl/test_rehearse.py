"""``svcctl rehearse``: what it shows of a log, its ports, and its steps."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from attrs import asdict
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.output import Out
from svcserver.ctl.rehearse.host import GAMES, Seen, free_ports, serious
from svcserver.ctl.rehearse.telling import Telling
from tests.ctl.command import svcctl

HERE = "127.0.0.1"
SERVED = Seen([], [], "1 online", "saves, and is served", saved=True)


class LogLineTests(SynchronousTestCase):
    def test_a_warning_of_a_component_is_its_level_and_message(self) -> None:
        line = "[metagame] 2026-11-22T11:18:05.070Z error a.b: the disk is full"
        self.assertEqual(serious(line), "[metagame] error: the disk is full")

    def test_what_is_no_warning_is_left_out(self) -> None:
        for line in (
            "[metagame] 2026-11-22T11:18:05.070Z info web.requestlog: GET /character 200",
            "[metagame] Traceback (most recent call last):",
            "2026-11-22T11:18:05.070Z info stack.children: stack ready: metagame",
            "",
        ):
            self.assertEqual(serious(line), "", line)

    def test_the_doctors_own_look_at_the_chat_is_left_out(self) -> None:
        line = "[metagame] 2026-11-22T11:18:05.070Z warn autobahn.x: dropping"
        self.assertEqual(serious(line), "")

    def test_a_refused_start_and_the_stacks_words_on_it_are_shown(self) -> None:
        refused = "[gateway] svc-gateway: GATEWAY_KEY: no; give one"
        self.assertEqual(serious(refused), refused)
        own = "2026-11-22T11:18:05.070Z error stack: gateway ended before it was ready (status 1)"
        self.assertIn("gateway ended", serious(own))


class RehearsalTests(SynchronousTestCase):
    def test_a_host_is_healthy_when_players_save_and_the_doctor_is_silent(self) -> None:
        self.assertTrue(SERVED.healthy)
        rest = asdict(SERVED)
        self.assertFalse(Seen(**{**rest, "doctor": ["wrong"]}).healthy)
        self.assertFalse(Seen(**{**rest, "saved": False}).healthy)

    def test_ports_differ_and_those_of_games_are_in_a_row(self) -> None:
        with ExitStack() as held:
            tcp = asdict(free_ports(held))
        first, last = tcp.pop("hunts"), tcp.pop("city")
        self.assertEqual(len(set(tcp.values())), 12)
        self.assertEqual(last - first, GAMES - 1)

    def test_its_ports_are_for_its_services_alone(self) -> None:
        """A connection of another program got one, once, before the service had started."""
        with ExitStack() as held:
            port = free_ports(held).gateway
            with socket.socket() as connecting, self.assertRaises(OSError):
                connecting.bind((HERE, port))
            for _ in range(2):  # and when it starts again
                with socket.create_server((HERE, port)), socket.create_connection((HERE, port)):
                    pass

    def test_steps_are_kept_for_machines(self) -> None:
        told = Telling(Out(as_json=True))
        told.step("one")
        told.command("svcctl doctor", "nothing is wrong")
        told.seen(SERVED)
        [step] = told.steps
        self.assertEqual((step["title"], step["player"]), ("one", SERVED.player))
        self.assertEqual(step["commands"][0]["command"], "svcctl doctor")

    def test_an_unknown_fault_is_refused_before_a_host_is_made(self) -> None:
        ran = svcctl("rehearse", "meteor")
        self.assertNotEqual(ran.status, 0)
        self.assertIn("full-disk", ran.err)
