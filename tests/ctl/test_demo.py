"""What ``make run`` tells: the way in for a player, who needs nothing but the launcher."""

from __future__ import annotations

import shlex

from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.demo import player_lines
from svcserver.ctl.host import Host
from svcserver.ctl.host_creation import create_host
from svcserver.edge.certificate import CERT_FILE, fingerprint
from svcserver.edge.invite import decode
from tests.ctl.command import nowhere


class PlayersLinkTests(SynchronousTestCase):
    def test_the_link_that_a_player_would_open_is_shown(self) -> None:
        folder = nowhere(self)
        create_host(folder, "127.0.0.1", "owner", demo=True)
        [line] = player_lines(Host(folder))
        word, program, text = shlex.split(line)
        self.assertEqual((word, program[-12:]), ("player", "svc-launcher"))
        found = decode(text)
        self.assertEqual(found.host, "127.0.0.1")
        self.assertEqual(found.fingerprint, fingerprint((folder / CERT_FILE).read_bytes()))
        (folder / "gateway.env").unlink()
        self.assertEqual(player_lines(Host(folder)), [])
