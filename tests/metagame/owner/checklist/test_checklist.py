"""The owner's first-evening checklist, and what the host finds for each of its items."""

import json
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import backups
from svcserver.kernel.backups import Backup, Backups
from svcserver.metagame.accounts.networks import ACCOUNT_NETWORKS
from svcserver.metagame.owner.checklist import CHECKED_S, CONNECT_S, Checklist, tcp_connect
from tests.support.game import Game
from tests.support.proves import proves

PATH = "/svc/api/DashboardChecklist"


class ChecklistTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.channels, self.reached = 0, False
        self.connected: list[tuple[str, int]] = []
        self.game = Game(self, BIND_HOST="127.0.0.1")

    async def connect(self, host: str, port: int) -> bool:
        self.connected.append((host, port))
        return self.reached

    def checklist(self, **settings: str) -> Checklist:
        game = Game(self, **settings) if settings else self.game
        return Checklist(
            game.settings,
            self.game.ledger,
            lambda: self.folder,
            lambda: self.channels,
            self.connect,
            self.game.clock.seconds,
            self.folder,
        )

    def write(self, component: str, *lines: str) -> None:
        (self.folder / f"{component}.env").write_text("\n".join(lines))

    def items(self, checklist: Checklist | None = None) -> dict[str, Any]:
        items = (checklist or self.checklist()).items()
        listed = self.successResultOf(Deferred.fromCoroutine(items))
        return {entry["id"]: entry for entry in listed}

    def states(self, checklist: Checklist | None = None) -> dict[str, bool]:
        return {name: entry["done"] for name, entry in self.items(checklist).items()}

    def test_a_new_host_lists_every_step_as_open_with_its_remedy(self) -> None:
        items = self.items()
        names = ["name", "server", "files", "ports", "alerts", "backup", "invite"]
        self.assertEqual(list(items), names)
        for entry in items.values():
            self.assertFalse(entry["done"], entry)
            self.assertTrue(entry["state"] and entry["cure"], entry)

    def test_each_item_is_checked_by_the_host(self) -> None:
        for name in ("art", "game"):
            (self.folder / name).mkdir()
        (self.folder / "art" / "Dawn.JPG").write_bytes(b"x")
        server = self.folder / "GameServer"
        server.write_text("#!/bin/sh\n")
        server.chmod(0o755)
        self.write("deploy", f"GAMESERVER_BINARY_PATH={server}")
        self.write("content", "CONTENT_BRANDING_DIR=art", "CONTENT_MANIFEST=manifest.json")
        (self.folder / "manifest.json").write_text(json.dumps({"files": [{"path": "game.exe"}]}))
        self.channels = 1
        now = self.game.clock.seconds()
        backups.write(self.folder, Backups([Backup("/b/a.tar.gz", now, 5, "ab")], now))
        self.game.player("Ann_1")
        self.game.player("Bob_1")
        checklist = self.checklist(SERVER_NAME="Friday Hunts", BIND_HOST="100.64.7.7")
        self.assertEqual({*self.states(checklist).values()}, {True})
        self.assertEqual(self.items(checklist)["files"]["cure"], "")

    def test_the_simulator_and_a_missing_program_are_no_game_server(self) -> None:
        plain = self.folder / "plain"
        plain.write_text("x")
        for binary, state in (
            ("/opt/svc-gameserver-sim", "simulator"),
            ("/nowhere/GameServer", "does not exist"),
            (str(plain), "cannot be run"),
        ):
            self.write("deploy", f"GAMESERVER_BINARY_PATH={binary}")
            server = self.items()["server"]
            self.assertIn(state, server["state"])
            self.assertFalse(server["done"])

    def test_the_game_server_of_a_swarm_is_an_image(self) -> None:
        swarm, image = "GAMESERVER_ENGINE=swarm", "GAMESERVER_IMAGE=game:1"
        binary = "GAMESERVER_BINARY_PATH=/srv/game"
        for lines, state, cure in (
            ((swarm, binary), "No image", "Set GAMESERVER_IMAGE in"),
            ((swarm, image), "No game server", "Set GAMESERVER_BINARY_PATH in"),
            ((swarm, image, f"{binary}/svc-gameserver-sim"), "simulator", "Set GAMESERVER_BIN"),
            ((swarm, image, binary), "runs /srv/game of the image game:1", ""),
            ((image, binary), "does not exist", "Set GAMESERVER_BINARY_PATH in"),
        ):
            self.write("deploy", *lines)
            server = self.items()["server"]
            self.assertIn(state, server["state"])
            self.assertIn(cure, server["cure"])
            self.assertEqual(server["done"], not cure)

    def test_a_manifest_without_a_game_lists_no_game_files(self) -> None:
        self.write("content", "CONTENT_MANIFEST=manifest.json")
        for text in ("", "[]", '{"files":[{"path":"README.txt"}]}', '{"files":[{}]}'):
            (self.folder / "manifest.json").write_text(text)
            self.assertFalse(self.states()["files"], text)
        (self.folder / "manifest.json").write_text("x" * 5000)
        self.assertTrue(self.states()["files"])

    def test_only_a_player_from_the_internet_proves_a_public_host(self) -> None:
        self.write("gateway", "GATEWAY_PORT=7443")
        self.write("relay", "SVC_RELAY_HOST=play.example.org")
        self.write("deploy", "PORT_RANGE_BEGIN=8770", "PORT_RANGE_END=8777")
        checklist = self.checklist()
        ports = self.items(checklist)["ports"]
        self.assertIn("does not reach that address", ports["state"])
        self.assertIn("TCP port 7443 and UDP ports 8770 to 8777", ports["cure"])
        self.reached = True
        self.items(checklist)
        self.assertEqual(self.connected, [("play.example.org", 7443)])  # at most once a minute
        self.game.clock.advance(CHECKED_S)
        self.assertIn("This machine reaches that address", self.items(checklist)["ports"]["state"])
        ann = self.game.player("Ann_1")
        for network, done in (("192.168.1.7/32", False), ("9.9.9.9/32", True)):
            row = {"account_id": ann.id, "network": network, "at": 1}
            self.game.ledger.run(lambda tx, row=row: tx.execute(ACCOUNT_NETWORKS.insert(), row))
            self.assertEqual(self.states(checklist)["ports"], done, network)

    def test_a_host_on_loopback_is_reached_by_nobody_else(self) -> None:
        for bind, done in (("127.0.0.1", False), ("::1", False), ("100.64.7.7", True)):
            ports = self.items(self.checklist(BIND_HOST=bind))["ports"]
            self.assertEqual(ports["done"], done, bind)

    @proves("GET DashboardChecklist")
    def test_only_owners_get_the_checklist(self) -> None:
        olga, mona = self.game.player("Olga", admin=True), self.game.player("Mona")
        body = {"Account": "Mona", "Role": "moderator"}
        self.game.browse("POST", "/svc/api/DashboardRole", key=olga.key, json=body)
        self.assertEqual(self.game.browse("GET", PATH, key=mona.key).status, 403)
        page = self.game.browse("GET", PATH, key=olga.key)
        self.assertEqual(len(page.json["items"]), 7)


class ConnectTests(SynchronousTestCase):
    def test_a_refused_or_silent_address_is_not_reached(self) -> None:
        reactor: Any = MemoryReactorClock()
        trying = Deferred.fromCoroutine(tcp_connect(reactor)("127.0.0.1", 443))
        reactor.advance(CONNECT_S + 1)
        self.assertFalse(self.successResultOf(trying))
