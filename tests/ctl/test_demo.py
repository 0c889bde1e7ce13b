"""What ``make run`` tells: the way in for a player, who needs nothing but the launcher."""

from __future__ import annotations

import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.demo import player_lines, tell
from svcserver.ctl.host import Host
from svcserver.ctl.host_creation import create_host
from svcserver.ctl.output import Out
from svcserver.edge.certificate import CERT_FILE, fingerprint
from svcserver.edge.invite import SCHEME, decode
from svcserver.kernel.settings import parse_env_file
from tests.ctl.command import nowhere


class ReadyTests(SynchronousTestCase):
    def test_what_is_said_when_it_is_ready_names_the_dashboard_and_where_the_key_is(self) -> None:
        folder = nowhere(self)
        create_host(folder, "127.0.0.1", "owner", demo=True)
        with redirect_stdout(StringIO()) as said:
            tell(Host(folder), Out())
        lines = said.getvalue().splitlines()
        port = parse_env_file((folder / "metagame.env").read_text())["PORT"]
        [dashboard] = [one for one in lines if one.startswith("dashboard")]
        self.assertIn(f" http://127.0.0.1:{port}/svc/dashboard ", dashboard)
        [owner] = [one for one in lines if one.startswith("owner")]
        self.assertTrue(Path(owner.rpartition(" ")[2]).is_file())


class PlayersLinkTests(SynchronousTestCase):
    def test_the_link_that_a_player_would_open_is_shown(self) -> None:
        folder = nowhere(self)
        create_host(folder, "127.0.0.1", "owner", demo=True)
        _, _, page, link, command = player_lines(Host(folder))
        self.assertEqual(page.split()[0], "https://127.0.0.1/join")
        text = link.strip()
        self.assertTrue(text.startswith(f"{SCHEME}://join?"))
        program, given = shlex.split(command)[-2:]
        self.assertEqual((program[-12:], given), ("svc-launcher", text))
        found = decode(text)
        self.assertEqual(found.host, "127.0.0.1")
        self.assertEqual(found.fingerprint, fingerprint((folder / CERT_FILE).read_bytes()))
        settings = (folder / "gateway.env").read_text()
        (folder / "gateway.env").write_text(settings.replace("JOIN_PAGE=1", "JOIN_PAGE=0"))
        self.assertEqual([one for one in player_lines(Host(folder)) if "/join (" in one], [])
        (folder / "gateway.env").unlink()
        self.assertEqual(player_lines(Host(folder)), [])
