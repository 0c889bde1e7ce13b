"""The output of ``make run``: how a player with only the launcher can join."""

import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.demo import player_lines, print_next_steps
from svcserver.ctl.host import Host
from svcserver.ctl.host_creation import create_host
from svcserver.ctl.output import Out
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
