"""``svcctl init``. Spec: design §2."""

import base64
import os
from pathlib import Path
from typing import Any
from unittest import mock

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from sqlalchemy import create_engine
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist.settings import AllowlistSettings
from svcserver.content.settings import ContentSettings
from svcserver.ctl import begun, host_creation
from svcserver.ctl.blueprint import is_private, own_address
from svcserver.ctl.doctor.case import Level
from svcserver.ctl.doctor.command import examine
from svcserver.ctl.host import find
from svcserver.deploy.settings import DeploySettings
from svcserver.edge.certificate import check_pair, make_pair, read_pair
from svcserver.edge.invite import decode
from svcserver.gateway.settings import GatewaySettings
from svcserver.kernel.settings import load, parse_env_file
from svcserver.metagame.accounts.store import SqlAccounts, knows_game_server
from svcserver.metagame.settings import MetagameSettings
from svcserver.metagame.settings import check as check_metagame
from svcserver.relay.settings import RelaySettings, target_of
from tests.ctl.command import database_of, new_host, nowhere, svcctl
from tests.ctl.doctor_host import Quiet
from tests.support.proves import proves

SHAPES = {
    "metagame": MetagameSettings,
    "deploy": DeploySettings,
    "content": ContentSettings,
    "gateway": GatewaySettings,
    "allowlist": AllowlistSettings,
    "relay": RelaySettings,
}
PUBLIC = {"game", "gateway-cert.pem", "host", "launcher", "manifest.json"}


class InitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = new_host(nowhere(self))

    def values(self, name: str) -> dict[str, str]:
        return parse_env_file((self.folder / f"{name}.env").read_text())

    def test_settings_resolve_parent_folders_but_not_links(self) -> None:
        above = self.folder.parent
        (above / "link").symlink_to(above / "target", target_is_directory=True)
        (above / "target").mkdir()
        for argument, place in (("through/../other", "other"), ("link", "link")):
            (above / "through").mkdir(exist_ok=True)
            self.assertEqual(svcctl("init", above / argument).status, 0)
            text = (above / place / "metagame.env").read_text()
            self.assertIn(f"DATABASE_URL=sqlite:///{above.resolve() / place}/svc.db\n", text)

    @proves("svcctl init")
    def test_every_component_takes_its_file_without_a_warning(self) -> None:
        for name, shape in SHAPES.items():
            _, warnings = load(shape, self.values(name))
            self.assertEqual(warnings, [], name)
        settings, _ = load(MetagameSettings, self.values("metagame"))
        self.assertEqual(check_metagame(settings), [])

    def test_old_saves_are_thinned_out_and_health_is_watched(self) -> None:
        settings, _ = load(MetagameSettings, self.values("metagame"))
        self.assertEqual((settings.save_history_keep, settings.backend_health), (100, True))

    @proves("svcctl init")
    def test_secrets_are_for_the_owner_alone(self) -> None:
        for path in self.folder.iterdir():
            mode = path.stat().st_mode & 0o777
            self.assertTrue(path.name in PUBLIC or mode == 0o600, f"{path.name} has mode {mode:o}")

    @proves("svcctl init")
    def test_shared_secrets_and_maps_match_between_settings_files(self) -> None:
        metagame, gateway = self.values("metagame"), self.values("gateway")
        self.assertEqual(metagame["GATEWAY_SECRET"], gateway["GATEWAY_SECRET"])
        self.assertEqual(self.values("content")["GATEWAY_SECRET"], gateway["GATEWAY_SECRET"])
        self.assertEqual(self.values("allowlist")["ALLOWLIST_SECRET"], gateway["ALLOWLIST_SECRET"])
        self.assertEqual(self.values("deploy")["CITY_MAP"], metagame["CITY_MAP"])
        self.assertEqual(self.values("deploy")["MY_IP"], "203.0.113.10")

    @proves("svcctl init")
    def test_the_signing_keys_are_a_pair_in_the_documented_form(self) -> None:
        metagame = self.values("metagame")
        private = base64.b64decode(metagame["AUTH_SIGNING_PRIVKEY_B64"], validate=True)
        public = base64.b64decode(metagame["AUTH_SIGNING_PUBKEY_B64"], validate=True)
        self.assertTrue(private.startswith(b"-----BEGIN PRIVATE KEY-----"))
        self.assertTrue(public.startswith(b"-----BEGIN PUBLIC KEY-----"))
        key = load_pem_private_key(private, None)
        self.assertEqual(key.key_size, 2048)  # type: ignore[union-attr]
        token = jwt.encode({"a": 1}, key, "RS256")  # type: ignore[arg-type]
        self.assertEqual(jwt.decode(token, load_pem_public_key(public), ["RS256"]), {"a": 1})  # type: ignore[arg-type]

    def test_the_certificate_matches_the_pin_of_the_relay(self) -> None:
        pair = read_pair(self.folder / "gateway-cert.pem", self.folder / "gateway-key.pem")
        from datetime import UTC, datetime

        self.assertEqual(check_pair(pair, datetime.now(UTC)), [])
        settings, _ = load(RelaySettings, self.values("relay"))
        target = target_of(settings, None)
        self.assertEqual((target.host, target.port), ("203.0.113.10", 443))
        self.assertEqual(target.fingerprint, pair.fingerprint)

    @proves("svcctl init")
    def test_the_owner_and_the_game_servers_are_registered(self) -> None:
        key = (self.folder / "owner.key").read_text().strip()
        self.assertRegex(key, r"^UUK_[0-9a-f]{48}$")
        with database_of(self.folder) as tx:
            owner = SqlAccounts(tx).by_key(key)
            known = knows_game_server(tx, self.values("deploy")["METAGAME_API_KEY"])
        assert owner is not None
        self.assertEqual((owner.username, owner.is_admin, known), ("Olga", True, True))

    @proves("svcctl init")
    def test_a_second_init_changes_nothing(self) -> None:
        before = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        ran = svcctl("init", self.folder)
        self.assertEqual(ran.status, 1)
        self.assertIn("Nothing was changed", ran.line)
        after = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        self.assertEqual(after, before)

    @proves("svcctl init")
    def test_init_refuses_a_folder_with_any_file_of_a_host(self) -> None:
        folder = nowhere(self)
        folder.mkdir(parents=True)
        (folder / "svc.db").write_text("mine")
        self.assertEqual(svcctl("init", folder).status, 1)
        self.assertEqual([path.name for path in folder.iterdir()], ["svc.db"])
        self.assertEqual((folder / "svc.db").read_text(), "mine")

    def test_settings_and_data_can_have_a_folder_each(self) -> None:
        settings, data = nowhere(self), nowhere(self)
        ran = svcctl("init", settings, "--data", data, "--public-host", "203.0.113.10")
        self.assertEqual(ran.status, 0, ran.err)
        here = {path.name for path in settings.iterdir()}
        there = {path.name for path in data.iterdir()}
        self.assertEqual(there, {"svc.db", "game", "launcher", "manifest.json"})
        self.assertEqual(here & there, set())
        self.assertIn(f"DATA_DIR={data}\n", (settings / "stack.env").read_text())
        unit = (settings / "host" / "svc-content.service").read_text()
        self.assertIn(f"WorkingDirectory={data}\n", unit)
        self.assertIn(f"ReadWritePaths={settings} {data}\n", unit)
        note = (data / "launcher" / "README.txt").read_text()
        self.assertIn(f"svcctl content launcher FILE --config {settings}\n", note)
        # players download this file until there is a game
        handed_out = (data / "game" / "README.txt").read_text()
        self.assertNotIn(str(settings), handed_out)
        listed = svcctl("account", "list", "--config", settings, "--json")
        self.assertEqual([path["username"] for path in listed.data["accounts"]], ["owner"])

    def test_init_with_a_used_data_folder_changes_neither_folder(self) -> None:
        settings, data = nowhere(self), nowhere(self)
        data.mkdir()
        (data / "manifest.json").write_text("mine")
        ran = svcctl("init", settings, "--data", data)
        self.assertEqual(ran.status, 1)
        self.assertIn(f"{data} already contains manifest.json", ran.line)
        self.assertEqual((list(settings.iterdir()), len(list(data.iterdir()))), ([], 1))

    def test_two_hosts_share_no_secret(self) -> None:
        first = set(self.values("metagame").values())
        self.folder = new_host(nowhere(self))
        second = self.values("metagame")
        for name in ("GATEWAY_SECRET", "AUTH_SIGNING_PRIVKEY_B64", "AUTH_SIGNING_PUBKEY_B64"):
            self.assertNotIn(second[name], first)

    def test_nothing_secret_is_printed(self) -> None:
        ran = svcctl("init", nowhere(self), "--json")
        self.assertEqual(
            sorted(ran.data),
            ["dashboard", "database", "fingerprint", "folder", "host", "mode", "owner"],
        )
        self.assertNotIn("UUK_", ran.out)

    def test_a_failure_halfway_leaves_nothing_behind(self) -> None:
        folder = nowhere(self)
        with mock.patch.object(
            host_creation, "build_manifest", side_effect=OSError(28, "disk full")
        ):
            ran = svcctl("init", folder)
        self.assertEqual((ran.status, list(folder.iterdir())), (1, []))
        self.assertIn("disk full", ran.line)

    def test_init_writes_its_note_first_and_metagame_env_last(self) -> None:
        """If init is stopped early, the note explains the files; the folder is not a host yet."""
        put, names = begun.put, list[str]()

        def noted(path: Path, *sent: Any) -> None:
            names.append(path.name)
            put(path, *sent)

        self.patch(begun, "put", noted)
        self.assertEqual(svcctl("init", nowhere(self)).status, 0)
        self.assertEqual((names[0], names[-1]), (begun.NOTE, "metagame.env"))

    def test_a_bad_owner_name_is_one_line(self) -> None:
        folder = nowhere(self)
        ran = svcctl("init", folder, "--owner", "no blanks please")
        self.assertEqual((ran.status, folder.exists()), (1, False))
        self.assertIn("3 to 16", ran.line)


class EngineTests(SynchronousTestCase):
    """The URLs of the database and of the live-state engine.

    They come from environment variables or options, and init never prints their passwords.
    """

    def setUp(self) -> None:
        self.folder = nowhere(self)
        self.folder.mkdir()
        self.database = f"sqlite:///{self.folder / 'mine.db'}"

    def made(self, *words: str, **environ: str) -> tuple[dict[str, str], str]:
        """Return the metagame's settings and the command's error output."""
        folder = nowhere(self)
        with mock.patch.dict(os.environ, environ):
            ran = svcctl("init", folder, *words)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertTrue((self.folder / "mine.db").exists())
        return parse_env_file((folder / "metagame.env").read_text()), ran.err

    def test_init_reads_both_urls_from_the_environment(self) -> None:
        live = "valkey://svc:hush@127.0.0.1:6379"
        output, err = self.made(SVC_DATABASE_URL=self.database, SVC_LIVE_URL=live)
        self.assertEqual((output["DATABASE_URL"], output["LIVE_URL"]), (self.database, live))
        self.assertEqual(err, "")

    def test_an_engine_without_a_password_gets_a_password(self) -> None:
        folder = nowhere(self)
        ran = svcctl(
            "init", folder, "--live", "valkey://127.0.0.1:6379/2", "--public-host", "a.example"
        )
        config = folder / "live.conf"
        password = config.read_text().splitlines()[0].removeprefix("requirepass ")
        for name in ("metagame", "gateway"):
            url = parse_env_file((folder / f"{name}.env").read_text())["LIVE_URL"]
            self.assertEqual(url, f"valkey://:{password}@127.0.0.1:6379/2")
        self.assertEqual((len(password), config.stat().st_mode & 0o777), (48, 0o600))
        copy = "/etc/valkey/svcserver.conf"  # the engine's user cannot read the folder
        self.assertIn(f"install -o valkey -m 640 {config} {copy}\n", ran.out)
        self.assertIn(f"include {copy} ", ran.out)
        self.assertNotIn(password, ran.out + ran.err)

    def test_a_password_changes_only_the_place_in_the_url(self) -> None:
        folder, ca = nowhere(self), self.folder / "ca.pem"
        ca.write_bytes(make_pair(["live.example"]).certificate)
        live = f"valkeys://live.example?ca=/{ca}"
        ran = svcctl("init", folder, "--live", live, "--public-host", "a.example")
        self.assertEqual(ran.status, 0, ran.err)
        url = parse_env_file((folder / "metagame.env").read_text())["LIVE_URL"]
        self.assertRegex(url, rf"^valkeys://:\w{{48}}@live\.example\?ca=/{ca}$")

    def test_init_in_memory_mode_writes_no_engine_settings(self) -> None:
        folder = nowhere(self)
        ran = svcctl("init", folder, "--live", "memory:")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertNotIn("password", ran.out)
        self.assertFalse((folder / "live.conf").exists())

    def test_an_option_wins_over_the_environment(self) -> None:
        elsewhere = f"sqlite:///{self.folder / 'other.db'}"
        output, _ = self.made("--database", self.database, SVC_DATABASE_URL=elsewhere)
        self.assertEqual(output["DATABASE_URL"], self.database)
        self.assertFalse((self.folder / "other.db").exists())

    def test_a_password_on_the_command_line_warns_without_showing_it(self) -> None:
        live = "valkey://svc:hush@127.0.0.1:6379"
        _, err = self.made("--database", self.database, "--live", live)
        [line] = err.splitlines()
        self.assertIn("the URL in --live contains a password", line)
        self.assertIn("SVC_LIVE_URL", line)
        self.assertNotIn("hush", line)
        words = ("--database", self.database, "--live", "memory:")
        _, err = self.made(*words, "--owner", "another", "--share-database")
        self.assertEqual(err, "")
        database = "postgresql://svc:hush@127.0.0.1:1/svc"  # no server listens there
        ran = svcctl("init", nowhere(self), "--database", database)
        self.assertEqual(ran.status, 1)
        self.assertIn("the URL in --database contains a password", ran.err)
        self.assertNotIn("hush", ran.err)

    def test_init_prints_the_database_and_where_it_was_set(self) -> None:
        with mock.patch.dict(os.environ, SVC_DATABASE_URL=self.database):
            ran = svcctl("init", nowhere(self))
        self.assertIn(f"database     {self.database} from SVC_DATABASE_URL\n", ran.out)
        ran = svcctl("init", nowhere(self), "--database", f"sqlite:///{self.folder / 'b.db'}")
        self.assertIn("b.db from --database\n", ran.out)
        folder = nowhere(self)
        self.assertIn(f"database     {folder}/svc.db\n", svcctl("init", folder).out)

    def test_database_of_another_host_is_refused_unchanged(self) -> None:
        self.made("--database", self.database)
        engine = create_engine(self.database)
        self.addCleanup(engine.dispose)
        with engine.begin() as tx:  # a database of an older version, which init would upgrade
            tx.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
        before, folder = (self.folder / "mine.db").read_bytes(), nowhere(self)
        with mock.patch.dict(os.environ, SVC_DATABASE_URL=self.database):
            ran = svcctl("init", folder, "--owner", "another")
        self.assertEqual((ran.status, [*folder.iterdir()]), (1, []))
        self.assertIn("has accounts of another host, so nothing was changed", ran.line)
        self.assertIn("share this one with --share-database", ran.line)
        self.assertIn(f"svcctl backup restore FILE --into {folder}", ran.line)
        self.assertEqual((self.folder / "mine.db").read_bytes(), before)

    def test_an_invalid_database_url_fails_and_names_its_variable(self) -> None:
        folder = nowhere(self)
        with mock.patch.dict(os.environ, SVC_DATABASE_URL="mysql://svc:hush@h/svc"):
            ran = svcctl("init", folder)
        self.assertEqual((ran.status, folder.exists()), (1, False))
        self.assertIn("SVC_DATABASE_URL", ran.line)
        self.assertNotIn("hush", ran.line)


class PrivateTests(SynchronousTestCase):
    """Private mode: no gateway, and the metagame on the overlay address. Spec: 1 §1."""

    def made(self, *words: str) -> Path:
        folder = nowhere(self)
        ran = svcctl("init", folder, *words, "--owner", "Olga")
        self.assertEqual(ran.status, 0, ran.err)
        self.output = ran.out
        return folder

    @proves("private mode: the metagame on the overlay address, no gateway (svcctl init)")
    def test_private_metagame_uses_the_overlay_address_and_no_gateway(self) -> None:
        folder = self.made("--private-host", "100.64.0.9")
        names = sorted(path.name for path in folder.glob("*.*"))
        wanted = ["content.env", "deploy.env", "manifest.json", "metagame.env", "owner.key"]
        self.assertEqual(names, [*wanted, "svc.db"])
        for name in ("metagame", "deploy", "content"):
            _, warnings = load(SHAPES[name], parse_env_file((folder / f"{name}.env").read_text()))
            self.assertEqual(warnings, [])
        metagame, _ = load(MetagameSettings, parse_env_file((folder / "metagame.env").read_text()))
        self.assertEqual((metagame.bind_host, metagame.gateway_secret), ("100.64.0.9", None))
        self.assertEqual(metagame.qos_target_url, "http://100.64.0.9:61000/QoS")
        self.assertEqual(check_metagame(metagame), [])
        deploy, _ = load(DeploySettings, parse_env_file((folder / "deploy.env").read_text()))
        self.assertEqual((deploy.bind_host, deploy.my_ip), ("127.0.0.1", "100.64.0.9"))
        self.assertIn("private      on 100.64.0.9", self.output)
        self.assertEqual(
            sorted(path.name for path in (folder / "host").glob("*.service")),
            [
                f"svc-{path}.service"
                for path in ("backup", "content", "deploy", "metagame", "watch")
            ],
        )

    @proves("private mode: the metagame on the overlay address, no gateway (svcctl init)")
    def test_the_invite_of_a_private_host_leads_to_the_metagame(self) -> None:
        folder = self.made("--private-host", "100.64.0.9")
        made = svcctl("invite", "create", "--config", folder, "--json").data
        invite = decode(made["join"])
        self.assertEqual((invite.host, invite.port, invite.public), ("100.64.0.9", 61000, False))
        self.assertEqual(invite.code, made["code"])

    @proves("private mode: the metagame on the overlay address, no gateway (svcctl init)")
    def test_the_overlay_address_is_found(self) -> None:
        with mock.patch("svcserver.ctl.init.own_address", return_value="100.64.7.7"):
            folder = self.made()
        self.assertIn("BIND_HOST=100.64.7.7\n", (folder / "metagame.env").read_text())

    def test_without_an_overlay_address_only_this_machine_can_play(self) -> None:
        with mock.patch("svcserver.ctl.init.own_address", return_value=None):
            folder = self.made()
        self.assertIn("BIND_HOST=127.0.0.1\n", (folder / "metagame.env").read_text())
        self.assertIn("only this machine can play", self.output)

    def test_the_doctor_finds_no_fault_in_a_new_private_host(self) -> None:
        folder = self.made("--private-host", "127.0.0.1")
        findings = examine(find(str(folder), None), folder, Quiet())
        self.assertEqual([str(finding) for finding in findings if finding.level is Level.WRONG], [])

    @proves("private mode: the metagame on the overlay address, no gateway (svcctl init)")
    def test_an_address_that_strangers_reach_is_refused(self) -> None:
        for words, fault in (
            (("--private-host", "203.0.113.1"), "use --public-host instead"),
            (("--private-host", "0.0.0.0"), "use --public-host instead"),
            (("--private-host", "127.0.0.1", "--public-host", "h.example"), "only one option"),
            *(
                (("--public-host", address), "PORT is a number from 1 to 65535")
                for address in (
                    "https://h.example",
                    "h.example/join",
                    "a b",
                    "",
                    "2001:db8::1",
                    "*.h",
                )
            ),
        ):
            folder = nowhere(self)
            ran = svcctl("init", folder, *words)
            self.assertEqual((ran.status, folder.exists()), (1, False))
            self.assertIn(fault, ran.line)

    def test_only_overlay_and_loopback_addresses_count_as_private(self) -> None:
        for address, private in (
            ("100.64.0.0", True),
            ("100.127.255.255", True),
            ("127.0.0.1", True),
            ("100.63.255.255", False),
            ("100.128.0.0", False),
            ("192.168.0.1", False),
            ("h.example", False),
        ):
            self.assertEqual(is_private(address), private, address)
        self.assertTrue(is_private(own_address() or "127.0.0.1"))
