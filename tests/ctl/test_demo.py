"""The output of ``make run``: how a player with only the launcher can join."""

import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import demo
from svcserver.ctl.demo import player_lines, print_next_steps
from svcserver.ctl.host import Host
from svcserver.ctl.host_creation import create_host
from svcserver.ctl.output import Out
from svcserver.ctl.play.evening import PlayOptions
from svcserver.ctl.play.story import INTERRUPTED, PlayFailed
from svcserver.ctl.play_command import Session
from svcserver.ctl.stack_process import Stack
from svcserver.edge.certificate import CERT_FILE, fingerprint
from svcserver.edge.invite import SCHEME, decode
from svcserver.kernel.settings import parse_env_file
from tests.ctl.command import nowhere


class ReadyTests(SynchronousTestCase):
    def test_ready_message_names_the_dashboard_and_the_key_file(self) -> None:
        folder = nowhere(self)
        create_host(folder, "127.0.0.1", "owner", demo=True)
        with redirect_stdout(StringIO()) as output:
            print_next_steps(Host(folder), Out())
        lines = output.getvalue().splitlines()
        port = parse_env_file((folder / "metagame.env").read_text())["PORT"]
        [dashboard] = [line for line in lines if line.startswith("dashboard")]
        self.assertIn(f" http://127.0.0.1:{port}/svc/dashboard ", dashboard)
        [owner] = [line for line in lines if line.startswith("owner")]
        self.assertTrue(Path(owner.rpartition(" ")[2]).is_file())


class InterruptTests(SynchronousTestCase):
    def run_demo(self, evening: Callable[[Stack], PlayFailed | None] | None) -> PlayFailed | None:
        """Return the result of ``run`` if Ctrl-C comes after ``evening``; None stands for never."""

        async def play(reactor: Any, stack: Stack, *_: object) -> PlayFailed | None:
            if evening is None:
                return await Deferred[PlayFailed | None]()
            return evening(stack)

        def run_in_reactor(work: Any) -> None:
            Deferred.fromCoroutine(work(mock.Mock()))
            raise KeyboardInterrupt

        folder = nowhere(self)
        create_host(folder, "127.0.0.1", "owner", demo=True)
        self.patch(demo, "evening", play)
        self.patch(demo, "run_in_reactor", run_in_reactor)
        session = Session(Host(folder), Out(as_json=True), PlayOptions())
        return demo.run(session, once=False)

    def test_ctrl_c_in_mid_evening_is_no_success(self) -> None:
        self.assertIs(self.run_demo(None), INTERRUPTED)

    def test_a_failure_after_the_stop_of_the_stack_is_no_fault_of_the_host(self) -> None:
        def fail(stack: Stack) -> PlayFailed:
            stack.told_to_stop = True
            return PlayFailed("gateway", "has gone")

        self.assertIs(self.run_demo(fail), INTERRUPTED)

    def test_ctrl_c_after_a_good_evening_is_a_success(self) -> None:
        self.assertIsNone(self.run_demo(lambda stack: None))


class PlayersLinkTests(SynchronousTestCase):
    def test_the_link_that_a_player_would_open_is_shown(self) -> None:
        folder = nowhere(self)
        create_host(folder, "127.0.0.1", "owner", demo=True)
        _, _, page, link, command = player_lines(Host(folder))
        self.assertEqual(page.split()[0], "https://127.0.0.1/join")
        text = link.strip()
        self.assertTrue(text.startswith(f"{SCHEME}://join?"))
        program, argument = shlex.split(command)[-2:]
        self.assertEqual((program[-12:], argument), ("svc-launcher", text))
        invite = decode(text)
        self.assertEqual(invite.host, "127.0.0.1")
        self.assertEqual(invite.fingerprint, fingerprint((folder / CERT_FILE).read_bytes()))
        settings = (folder / "gateway.env").read_text()
        (folder / "gateway.env").write_text(settings.replace("JOIN_PAGE=1", "JOIN_PAGE=0"))
        self.assertEqual([line for line in player_lines(Host(folder)) if "/join (" in line], [])
        (folder / "gateway.env").unlink()
        self.assertEqual(player_lines(Host(folder)), [])
