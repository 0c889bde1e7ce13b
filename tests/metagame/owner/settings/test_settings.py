"""The settings page: what it shows, and settings that change at run time."""

import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import host_state
from svcserver.kernel.host_state import HostState
from svcserver.metagame.owner.settings.acts import LiveSettings
from svcserver.metagame.owner.settings.catalogue import without_credentials
from svcserver.metagame.owner.settings.rules import LIVE, apply, options, parsed, shown
from svcserver.metagame.owner.settings.store import SqlSettings
from tests.support.browser import Page
from tests.support.game import START, Game, settings
from tests.support.proves import proves

PATH = "/svc/api/DashboardSetting"


class SettingsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, ledger: Any = None, **environ: str) -> None:
        self.game = Game(self, ledger=ledger, **environ)
        self.live = self.game.parts.desk.settings.live
        if ledger is None:
            self.olga = self.game.player("Olga", admin=True)

    def change(self, name: str, value: str | None, key: str = "") -> Page:
        sent = {"Name": name, "Reason": "why"} | ({} if value is None else {"Value": value})
        return self.game.browse("POST", PATH, json=sent, key=key or self.olga.key)

    def rows(self) -> dict[str, Any]:
        """Return the row of each setting.

        The result is a dict whose keys are a component and a setting's name, such as "gateway
        PORT".
        """
        page = self.game.browse("GET", "/svc/api/DashboardSettings", key=self.olga.key)
        return {
            f"{section['component']} {row['name']}": row
            for section in page.json["sections"]
            for row in section["settings"] or ()
        }

    def row(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = self.rows()[f"metagame {name}"]
        return row

    @proves("POST DashboardSetting", "GET DashboardSettings")
    def test_a_change_takes_effect_and_is_in_the_audit_log(self) -> None:
        self.assertEqual(self.row("GUILD_MAX_MEMBERS")["source"], "default")
        page = self.change("GUILD_MAX_MEMBERS", " 7 ")
        self.assertEqual(page.json, {"name": "GUILD_MAX_MEMBERS", "value": "7"})
        self.assertEqual(self.game.parts.guilds.limits.max_members, 7)
        row = self.row("GUILD_MAX_MEMBERS")
        self.assertEqual((row["value"], row["source"], row["live"]), ("7", "page", True))
        audit = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        entry = audit.json["rows"][0]
        self.assertEqual(
            [entry[name] for name in ("actor", "action", "target", "reason", "before", "after")],
            ["Olga", "setting", "GUILD_MAX_MEMBERS", "why", {"value": "100"}, {"value": "7"}],
        )

    @proves("POST DashboardSetting")
    def test_a_change_survives_a_restart(self) -> None:
        self.change("GUILD_MAX_MEMBERS", "7")
        before = self.game.ledger
        self.start(before, GUILD_MAX_MEMBERS="50")
        self.assertEqual(self.game.settings.guild_max_members, 50)
        self.game.ledger.run(self.live.load)
        self.assertEqual(self.game.settings.guild_max_members, 7)

    @proves("POST DashboardSetting")
    def test_without_a_value_the_env_file_applies_again(self) -> None:
        self.start(GUILD_MAX_MEMBERS="50")
        self.change("GUILD_MAX_MEMBERS", "7")
        self.assertEqual(self.change("GUILD_MAX_MEMBERS", None).json["value"], "50")
        self.assertEqual(self.game.settings.guild_max_members, 50)

    @proves("POST DashboardSetting")
    def test_a_second_metagame_applies_a_changed_setting_at_its_refresh(self) -> None:
        parts = self.game.parts
        second = LiveSettings(settings(), parts.audit, parts.registration)
        self.change("GUILD_MAX_MEMBERS", "7")
        self.successResultOf(second.refresh())
        self.assertEqual(second.settings.guild_max_members, 7)
        self.change("GUILD_MAX_MEMBERS", None)
        self.successResultOf(second.refresh())
        self.assertEqual(second.settings.guild_max_members, 100)

    @proves("POST DashboardSetting")
    def test_a_bad_value_or_name_is_refused_with_the_cure(self) -> None:
        cases = {
            ("GUILD_MAX_MEMBERS", "many"): (400, "must be a whole number from 1 to 10000"),
            ("GUILD_MAX_MEMBERS", ""): (400, "must have a value"),
            ("ACCOUNT_MAPPING", "yes"): (400, "must be one of 1, 0"),
            ("REGISTRATION_MODE", "open"): (400, "must be one of NONE, INVITECODE, OPEN"),
            ("DATABASE_URL", "sqlite:///x"): (404, "no setting with this name"),
            ("NOTHING", "1"): (404, "no setting with this name"),
        }
        for (name, value), (status, words) in cases.items():
            page = self.change(name, value)
            self.assertEqual(page.status, status, name)
            self.assertIn(words, page.json["message"])
        self.assertEqual(self.change("GUILD_NAME_DENYLIST", "a\nb").status, 400)

    @proves("POST DashboardSetting", "GET DashboardSettings")
    def test_moderators_neither_see_nor_change_settings(self) -> None:
        mona = self.game.player("Mona")
        self.game.browse(
            "POST",
            "/svc/api/DashboardRole",
            json={"Username": "Mona", "Role": "moderator"},
            key=self.olga.key,
        )
        self.assertEqual(self.change("GUILD_MAX_MEMBERS", "7", mona.key).status, 403)
        page = self.game.browse("GET", "/svc/api/DashboardSettings", key=mona.key)
        self.assertEqual(page.status, 403)

    @proves("POST DashboardSetting")
    def test_a_changed_registration_mode_overrides_that_of_svcctl(self) -> None:
        self.game.browse(
            "POST",
            "/svc/api/RegistrationStatus",
            json={"RegistrationStatus": "NONE"},
            key=self.olga.key,
        )
        row = self.row("REGISTRATION_MODE")
        self.assertEqual((row["value"], row["source"]), ("NONE", "command"))
        self.change("REGISTRATION_MODE", "INVITECODE")
        status = self.game.browse("GET", "/svc/api/RegistrationStatus").json
        self.assertEqual(status["RegistrationMode"], "INVITECODE")
        self.assertEqual(self.row("REGISTRATION_MODE")["source"], "page")
        audit = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        self.assertEqual(audit.json["rows"][0]["before"], {"value": "NONE"})

    def mode(self) -> str | None:
        return self.successResultOf(Deferred.fromCoroutine(self.game.parts.registration.mode()))

    @proves("POST DashboardSetting")
    def test_a_failed_commit_leaves_the_mode_of_svcctl_in_force(self) -> None:
        parts, ledger = self.game.parts, self.game.ledger
        mark = ledger.run(lambda tx: parts.registration.keep(tx, "NONE"))
        self.successResultOf(Deferred.fromCoroutine(parts.registration.begin(mark)))

        def change(tx: Connection) -> None:
            SqlSettings(tx).put("REGISTRATION_MODE", "OPEN", "Olga", 0.0)
            parts.registration.end(tx)

        def fail(tx: Connection) -> None:
            change(tx)
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            ledger.run(fail)
        self.successResultOf(self.live.refresh())
        self.assertEqual(self.mode(), "NONE")
        ledger.run(change)  # killed right after the commit; another metagame reads both changes
        self.successResultOf(self.live.refresh())
        self.assertEqual(self.mode(), "OPEN")

    @proves("POST DashboardSetting")
    def test_the_newer_of_page_and_svcctl_sets_the_mode(self) -> None:
        def order(mode: str) -> None:
            self.game.browse(
                "POST",
                "/svc/api/RegistrationStatus",
                json={"RegistrationStatus": mode},
                key=self.olga.key,
            )

        self.change("REGISTRATION_MODE", "INVITECODE")
        order("NONE")
        self.assertEqual(self.mode(), "NONE")
        self.change("REGISTRATION_MODE", None)
        self.assertEqual(self.mode(), self.game.settings.registration_mode)
        order("OPEN")
        self.assertEqual(self.mode(), "OPEN")
        registration = self.game.parts.registration
        self.game.ledger.run(lambda tx: registration.keep(tx, "NONE"))  # killed before it begins
        self.assertEqual(self.mode(), self.game.settings.registration_mode)

    @proves("POST DashboardSetting")
    def test_limits_that_players_meet_change_at_once(self) -> None:
        parts, ann = self.game.parts, self.game.player("Ann_1")
        self.change("ACCOUNT_BYTES_A_DAY", "600")
        self.change("GUILD_NAME_DENYLIST", "zork, plugh")
        self.change("MATCHMAKING_LAUNCH_COOLDOWN_S", "2.5")
        self.assertEqual(parts.matches.cooldown_s(), 2.5)
        self.assertTrue(parts.guilds.words.is_offensive("zork"))
        sent = {"name": "Zed"}
        codes = [
            self.game.browse("PUT", "/character", json=sent, token=ann.token).status
            for _ in range(2)
        ]
        self.assertEqual(codes[1], 429)

    @proves("GET DashboardSettings")
    def test_each_value_names_its_source_and_no_secret_leaves(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        url = "postgresql://svc:p@ss/w?rd@db:5432/svc?sslmode=require&password=two"
        lines = f"DATABASE_URL={url}\nSTORE=free\nGATEWAY_SECRET={'s' * 32}\nCITY_TITLE=Old\n"
        (folder / "metagame.env").write_text(lines)
        (folder / "deploy.env").write_text(
            "METAGAME_API_KEY=verysecret\nCITY_MAP=/Game/x\nTRIALS_MAP=\nGAMESERVER_ARGS=\n"
        )
        (folder / "stack.env").write_bytes(b"\xff\xfe")
        (folder / "relay.env").write_text("SVC_RELAY_HOST=a.example\nSVC_RELAY_INVITE=svc://x\n")
        environ = {
            "DATABASE_URL": url,
            "STORE": "free",
            "GATEWAY_SECRET": "s" * 32,
            "CITY_TITLE": "Old",
            "PORT": "61100",
        }
        page = self.game.parts.desk.settings
        page.attach(str(folder / "metagame.env"), environ)
        (folder / "metagame.env").write_text(lines.replace("Old", "New"))
        rows = self.rows()
        got = {
            name: (rows[name]["value"], rows[name]["source"], rows[name]["restart"])
            for name in (
                "metagame DATABASE_URL",
                "metagame STORE",
                "metagame PORT",
                "metagame CITY_TITLE",
                "metagame GATEWAY_SECRET",
                "metagame CHAT",
                "deploy METAGAME_API_KEY",
                "deploy CITY_MAP",
                "deploy TRIALS_MAP",
                "deploy GAMESERVER_ARGS",
                "relay SVC_RELAY_HOST",
                "relay SVC_RELAY_INVITE",
            )
        }
        self.assertEqual(
            got,
            {
                "metagame DATABASE_URL": ("postgresql://…@db:5432/svc", "file", False),
                "metagame STORE": ("free", "file", False),
                "metagame PORT": ("61100", "environment", False),
                "metagame CITY_TITLE": ("Old", "file", True),
                "metagame GATEWAY_SECRET": (None, "file", False),
                "metagame CHAT": (None, "default", False),
                "deploy METAGAME_API_KEY": (None, "file", False),
                "deploy CITY_MAP": ("/Game/x", "file", False),
                "deploy TRIALS_MAP": (None, "default", False),
                "deploy GAMESERVER_ARGS": ("", "file", False),
                "relay SVC_RELAY_HOST": ("a.example", "file", False),
                "relay SVC_RELAY_INVITE": (None, "file", False),
            },
        )
        reply = self.game.browse("GET", "/svc/api/DashboardSettings", key=self.olga.key)
        self.assertNotIn(b"verysecret", reply.body)
        sections = {section["component"]: section for section in reply.json["sections"]}
        self.assertEqual(sections.keys(), {"metagame", "deploy", "stack", "relay"})
        self.assertIsNone(sections["stack"]["settings"])
        self.assertEqual(sections["deploy"]["file"], str(folder / "deploy.env"))

    @proves("GET DashboardSettings")
    def test_settings_that_need_a_restart_or_are_overridden_say_so(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, lines in {
            "metagame": "",
            "stack": "BACKUP_AT=03:00\nWORKERS=2\n",
            "gateway": "GATEWAY_PORT=61005\n",
            "content": "PORT=61002\n",
        }.items():
            (folder / f"{name}.env").write_text(lines)
        page = self.game.parts.desk.settings
        page.attach(str(folder / "metagame.env"), {})
        page.data = folder
        environment = {"BACKUP_AT": "05:00", "BACKUP_PASSPHRASE": None}
        changed = {"gateway": ("GATEWAY_PORT",), "stack": ("WORKERS",), "content": None}
        state = HostState(START, environment=environment, changed=changed)
        host_state.write(folder, state)
        rows = self.rows()
        self.assertEqual(
            {
                name: (rows[name]["value"], rows[name]["source"], rows[name]["restart"])
                for name in (
                    "stack BACKUP_AT",
                    "stack BACKUP_PASSPHRASE",
                    "stack WORKERS",
                    "stack BACKUP_DIR",
                    "gateway GATEWAY_PORT",
                    "content PORT",
                )
            },
            {
                "stack BACKUP_AT": ("05:00", "environment", False),
                "stack BACKUP_PASSPHRASE": (None, "environment", False),
                "stack WORKERS": ("2", "file", True),
                "stack BACKUP_DIR": (None, "default", False),
                "gateway GATEWAY_PORT": ("61005", "file", True),
                "content PORT": ("61002", "file", False),
            },
        )
        reply = self.game.browse("GET", "/svc/api/DashboardSettings", key=self.olga.key).json
        unknown = {section["component"] for section in reply["sections"] if section["restart"]}
        self.assertEqual((unknown, reply["stack"]), ({"content"}, False))

    def test_values_of_urls_show_no_credentials(self) -> None:
        for value, text in (
            ("valkeys://svc:a@b:c@live:6380?ca=/x", "valkeys://…@live:6380"),
            ("http://127.0.0.1:61005", "http://127.0.0.1:61005"),
            ("8,1", "8,1"),
            ("-key=UUK_0123456789abcdef0123", "-key=<key>"),
        ):
            self.assertEqual(without_credentials(value), text)

    def test_a_stored_value_that_no_longer_fits_is_ignored(self) -> None:
        self.game.ledger.run(lambda tx: SqlSettings(tx).put("GUILD_MAX_MEMBERS", "x", "a", 0.0))
        self.game.ledger.run(lambda tx: SqlSettings(tx).put("GONE", "x", "a", 0.0))
        self.game.ledger.run(self.live.load)
        self.assertEqual(self.game.settings.guild_max_members, 100)

    def test_commands_apply_stored_values_as_the_metagame_does(self) -> None:
        loaded = settings()
        apply(loaded, {"GUILD_MAX_MEMBERS": "7", "ACCOUNT_BYTES_A_DAY": "x", "GONE": "1"})
        self.assertEqual(loaded.guild_max_members, 7)
        self.assertEqual(loaded.account_bytes_a_day, settings().account_bytes_a_day)

    def test_each_live_setting_reads_its_own_spelling(self) -> None:
        for name, field in LIVE.items():
            text = shown(getattr(self.game.settings, field.name))
            self.assertEqual(parsed(name, text), getattr(self.game.settings, field.name), name)
            for value in options(name):
                self.assertEqual(shown(parsed(name, value)), value)
