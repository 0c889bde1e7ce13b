"""``svcctl`` for an owner with a second factor and a separate dashboard key."""

import socket
from typing import Any

from svcserver.ctl import as_owner, maintenance
from svcserver.ctl.database import existing, url_of
from svcserver.ctl.host import Host
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.accounts.dashboard_access import (
    DashboardAccess,
    SqlDashboardAccess,
    new_factor,
)
from svcserver.metagame.owner.people.store import SqlPeople
from svcserver.stack.rolling import StackState
from tests.ctl.hosts import change, value
from tests.ctl.test_accounts import HostCase
from tests.metagame.owner.maintenance.test_maintenance import GameServers
from tests.metagame.play.matchmaking.base import Reply
from tests.support.belongings import Owner
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.ledger import InstantLedger
from tests.support.proves import proves

KEYS = SIGNING_KEY, "AUTH_SIGNING_PUBKEY_B64"
REAL_EXCHANGE = as_owner._exchange
GUILD = {"name": "Lanterns", "nameplate": "LAN"}


class RunningHostCase(HostCase):
    """A host with an in-memory metagame and a real database; requests use no network.

    The requests have the headers that ``svcctl`` really sends.
    """

    def setUp(self) -> None:
        super().setUp()
        signing = {name: value(self.folder, "metagame", name) for name in KEYS}
        ledger = self.ledger()
        self.servers = GameServers()
        self.game = Game(self, http=self.servers, ledger=ledger, BACKEND_HEALTH="1", **signing)
        self.sent: list[dict[str, str]] = []
        self.patch(as_owner, "_exchange", self.exchange)
        self.patch(as_owner, "epoch", self.game.clock.seconds)

    def ledger(self) -> InstantLedger | None:
        """Return a ledger on the host's database."""
        return InstantLedger(existing(url_of(Host(self.folder))))

    def exchange(
        self,
        base: str,
        method: str,
        path: str,
        headers: dict[str, str],
        what: str,
        patience_s: float,
        body: bytes | None = None,
    ) -> tuple[int, bytes]:
        self.sent.append(headers)
        more: dict[str, Any] = {} if body is None else {"data": body}
        page = self.game.browse(method, path, headers=headers, **more)
        return page.status, page.body

    def stop_the_metagame(self) -> None:
        """Make the metagame's port refuse connections; the test keeps the port reserved."""
        self.patch(as_owner, "_exchange", REAL_EXCHANGE)
        held = self.enterContext(socket.socket())
        held.bind(("127.0.0.1", 0))
        change(self.folder, "metagame", "PORT", str(held.getsockname()[1]))

    def done(self, *words: str) -> Any:
        ran = self.ctl(*words, "--json")
        self.assertEqual(ran.status, 0, f"{words}: {ran.err}")
        return ran.data


class SecondFactorTests(RunningHostCase):
    def setUp(self) -> None:
        super().setUp()
        self.olga = self.game.player("Olga", admin=True)
        self.ann = Owner.of(self.game, "Ann_1")
        (self.folder / "owner.key").write_text(self.olga.key + "\n")
        ways = DashboardAccess(self.olga.id, fingerprint("UUK_other"), new_factor())
        self.game.ledger.run(lambda tx: SqlDashboardAccess(tx).put(ways))

    def ledger(self) -> None:
        """Return None: the game's own in-memory database knows all keys of these tests."""

    def found_guild(self) -> None:
        token = self.ann.player.token
        self.game.browse("POST", "/guild/validate", token=token, json=GUILD)
        body = {**GUILD, "leader_account_id": self.ann.player.id}
        self.game.browse("POST", "/guild", game_server=GAME_SERVER_KEY, json=body)

    @proves("svcctl: as the owner, whatever opens the dashboard to people")
    def test_with_a_second_factor_the_owners_key_alone_is_401(self) -> None:
        for route in ("DashboardDrain", "BackendHealth", "Guilds"):
            page = self.game.browse("GET", f"/svc/api/{route}", key=self.olga.key)
            self.assertEqual(page.status, 401, route)

    @proves("svcctl: as the owner, whatever opens the dashboard to people")
    def test_every_command_over_http_works(self) -> None:
        self.found_guild()
        running = self.folder, StackState(1, 0.0, 0, True)
        self.patch(maintenance, "running_stack", lambda host, otherwise: running)
        for words in (
            ("account", "show", "Ann_1"),
            ("account", "grant", "Ann_1", "gift_of_autumn"),
            ("account", "revoke", "Ann_1", "gift_of_autumn"),
            ("account", "seed", "Ann_1", "fresh"),
            ("account", "rename", "Ann_1", "Anna_1"),
            ("registration",),
            ("registration", "NONE"),
            ("guild", "list"),
            ("guild", "disband", "Lanterns"),
            ("drain", "on", "--reason", "new version"),
            ("drain", "status"),
            ("drain", "off"),
            ("gameserver", "list"),
            ("gameserver", "start", "dojo"),
            ("gameserver", "restart", "city"),
            ("gameserver", "stop", "city"),
            ("figures",),
        ):
            self.done(*words)
        self.assertIsNotNone(self.done("status")["health"])
        self.assertFalse(self.done("status")["status"].get("limited"))
        self.assertNotIn(as_owner.UNPROVEN, self.ctl("gameserver", "console", "city").err)
        # no svc-stack runs here either
        self.assertIn("no svc-stack runs", self.ctl("update", "when-empty").line)

    @proves("svcctl gameserver list, start, stop, restart, console")
    def test_the_output_of_an_ended_game_server_is_shown(self) -> None:
        launch = {
            "kind": "hunt",
            "port": 8770,
            "map": "/Game/x",
            "reason": "",
            "how": "exit code 1",
        }
        times = {"startedAt": "2026-11-28T01:00:00Z", "endedAt": "2026-11-28T02:00:00Z"}
        launches = [
            {**launch, **times, "id": f"{number}abc", "hasOutput": number > 1}
            for number in (1, 2, 3)
        ]

        def answer() -> None:
            _, path, _ = self.servers.requests[-1]
            name, _, wanted = path.removeprefix("/gameservers/").partition("?id=")
            replies = {"history": {"launches": launches}, "console": {"lines": [f"I am {wanted}"]}}
            self.servers.answer = Reply(200, replies[name])

        self.servers.on_request = answer
        for wanted, shown in (("city", "city"), ("hunt", "2abc"), ("3a", "3abc")):
            self.assertEqual(self.done("gameserver", "console", wanted)["lines"], [f"I am {shown}"])
        self.assertIn(
            "ended game server 1a is stored", self.ctl("gameserver", "console", "1a").line
        )
        listed = self.ctl("gameserver", "list", "--ended").out
        for text in ("1abc", "exit code 1", "2026-11-28T02:00:00Z"):
            self.assertIn(text, listed)

    def test_the_audit_log_names_the_user_that_ran_svcctl(self) -> None:
        self.patch(as_owner, "actor", lambda: "svcctl:ada")
        self.done("account", "rename", "Ann_1", "Anna_1")
        row = as_owner.owner_of(Host(self.folder)).get("DashboardAudit")["rows"][0]
        self.assertEqual((row["actor"], row["target"]), ("svcctl:ada", "Ann_1"))

    def test_notes_are_merged_by_the_running_metagame(self) -> None:
        self.game.ledger.run(lambda tx: SqlPeople(tx).add_notes(self.ann.player.id, 5))
        reply = self.done("account", "merge-notes", "ann_1", "Olga")
        self.assertEqual(reply, {"username": "Ann_1", "to": "Olga", "moved": 5})
        again = self.ctl("account", "merge-notes", "Ann_1", "Olga").line
        self.assertEqual(again, "svcctl: Ann_1 has no notes")

    def test_a_changed_signing_key_is_reported_with_its_remedy(self) -> None:
        change(self.folder, "metagame", SIGNING_KEY, "bmV3")
        self.assertEqual(self.ctl("drain", "status").line, f"svcctl: {as_owner.UNPROVEN}")
        self.game.ledger.run(lambda tx: SqlDashboardAccess(tx).put(DashboardAccess(self.olga.id)))
        self.done("drain", "status")  # the key is enough until the metagame has restarted

    def test_without_a_signing_key_the_owners_key_is_sent_alone(self) -> None:
        change(self.folder, "metagame", SIGNING_KEY, "")
        self.ctl("drain", "status")
        self.assertEqual(self.sent, [{"x-svc-user-api-key": self.olga.key}])
        (self.folder / "owner.key").unlink()
        self.assertIn("owner.key", self.ctl("drain", "status").line)
        self.assertEqual(len(self.sent), 1)

    def test_the_repr_shows_neither_signing_key_nor_owner_key(self) -> None:
        shown = repr(as_owner.owner_of(Host(self.folder)))
        self.assertNotIn(value(self.folder, "metagame", SIGNING_KEY), shown)
        self.assertNotIn(self.olga.key, shown)
