"""``svcctl doctor`` finds every planted fault and names the remedy. Spec: 2 §8."""

from __future__ import annotations

from typing import Any
from unittest import mock

from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.keys import new_signing_keys
from svcserver.kernel.secrets import hex_token
from svcserver.metagame.owner.settings.store import SqlSettings
from tests.ctl.command import database_of, svcctl
from tests.ctl.doctor_host import DoctorCase, Quiet
from tests.ctl.hosts import value
from tests.support.proves import proves

WRONG_PORT = "http://127.0.0.1:61009"
FAULTS = (  # component, variable, value, fault, cure
    ("metagame", "REGISTRATON_MODE", "OPEN", "is not a setting", "write REGISTRATION_MODE in"),
    ("metagame", "REGISTRATION_MODE", "Open", "nobody can register", "=INVITECODE"),
    ("deploy", "NODE_ENV", "development", "is not production", "=production in deploy.env"),
    ("metagame", "AUTH_MODE", "NONE", "AUTH_MODE must be APIKEY", "correct it in"),
    ("deploy", "GAMESERVER_STARTUP_MB", "much", "must be a whole number", "correct it in"),
    ("deploy", "MY_IP", "", "is not set: no player can be sent to a game server", "correct it in"),
    ("content", "BIND_HOST", "0.0.0.0", "is not a loopback", "make only the gateway public"),
    ("metagame", "DEPLOYSERVER_URL", "http://127.0.0.1:61001", "is not host:port", "without http"),
    ("metagame", "CITY_MAP", "/Game/Maps/x", "differs from that in deploy.env", "the same map"),
    ("deploy", "PORT_RANGE_BEGIN", "8700", "ALLOWLIST_PORTS is 8770-8777", "=8700-8777"),
    ("gateway", "GATEWAY_BIND", "127.0.0.1", "only this machine reaches", "=0.0.0.0"),
    ("gateway", "GATEWAY_METAGAME_URL", WRONG_PORT, "leads to port 61009", "to 61000 in gateway"),
    ("gateway", "GATEWAY_CONTENT_URL", WRONG_PORT, "leads to port 61009", "to 61002 in gateway"),
    ("gateway", "GATEWAY_WS_URL", "http://localhost:61009", "to port 61009", "to 61099 in gateway"),
    ("gateway", "ALLOWLIST_URL", WRONG_PORT, "leads to port 61009", "to 61005 in gateway"),
    ("content", "METAGAME_URL", WRONG_PORT, "leads to port 61009", "to 61000 in content"),
    ("metagame", "DEPLOYSERVER_URL", "127.0.0.1:61009", "leads to port 61009", "61001 in metagame"),
    (
        "relay",
        "SVC_RELAY_FINGERPRINT",
        "0" * 64,
        "is not the fingerprint",
        "svcctl cert fingerprint",
    ),
    ("metagame", "DATABASE_URL", "sqlite://", "a restart loses everything", "sqlite:///svc.db"),
    ("deploy", "METAGAME_API_KEY", "0" * 64, "is not registered", "svcctl gameserver-key add"),
)
NOTES = (  # component, variable, value, note; nothing is wrong
    ("deploy", "MY_IP", "127.0.0.1", "only this machine can play"),
    ("deploy", "MY_IP", "203.0.113.99", "203.0.113.99, but 203.0.113.10 has the address"),
)


class CommandTests(DoctorCase):
    def doctor(self, *words: str, machine: Machine | None = None) -> Any:
        with mock.patch("svcserver.ctl.doctor.command.Machine", lambda: machine or Quiet()):
            return self.ctl("doctor", *words)

    @proves("svcctl doctor")
    def test_a_new_host_is_healthy(self) -> None:
        ran = self.doctor()
        self.assertEqual((ran.status, ran.err), (0, ""), ran.out)
        self.assertTrue(ran.out.endswith("No faults found.\n"))
        self.assertNotIn("wrong  ", ran.out)

    @proves("svcctl doctor")
    def test_a_finding_is_status_1_with_its_cure_in_the_same_line(self) -> None:
        self.plant("deploy", "GAMESERVER_BINARY_PATH", "/nowhere/server")
        ran = self.doctor()
        self.assertEqual(ran.status, 1)
        self.assertEqual(ran.line, "svcctl: the host has 1 fault. Apply the fixes above.")
        first = ran.out.splitlines()[0]
        self.assertRegex(first, r"^wrong  deploy: .*/nowhere/server is missing; put the path")

    @proves("svcctl doctor")
    def test_the_registration_mode_of_the_settings_page_is_checked(self) -> None:
        def put(mode: str) -> str:
            with database_of(self.folder) as tx:
                SqlSettings(tx).put("REGISTRATION_MODE", mode, "Olga", 0.0)
            return str(self.doctor().out)

        self.assertIn("anybody may register; set REGISTRATION_MODE=INVITECODE in the", put("OPEN"))
        self.plant("metagame", "REGISTRATION_MODE", "OPEN")
        self.assertNotIn("anybody may register", put("INVITECODE"))

    def test_every_finding_in_json_has_four_members(self) -> None:
        self.plant("metagame", "NODE_ENV", "")
        ran = self.doctor("--json")
        self.assertEqual((ran.status, ran.data["ok"]), (1, False))
        for finding in ran.data["findings"]:
            self.assertEqual(list(finding), ["level", "component", "what", "cure"])
            self.assertTrue(all(finding.values()), finding)

    def test_doctor_without_a_host_folder_fails_with_one_line(self) -> None:
        gone = self.folder / "nowhere"
        for words in (("--env-file", str(self.folder / "metagame.env")), ("--config", str(gone))):
            with mock.patch("svcserver.ctl.host.Path.is_file", return_value=False):
                ran = svcctl("doctor", *words)
            self.assertEqual(ran.status, 1)
            self.assertTrue(ran.line.startswith("svcctl: "))

    @proves("svcctl doctor")
    def test_the_doctor_changes_no_file(self) -> None:
        def all_files() -> dict[str, bytes]:
            return {
                str(path): path.read_bytes()
                for path in self.folder.rglob("*")
                if path.is_file() and path.suffix not in (".db-wal", ".db-shm")
            }

        before = all_files()
        self.doctor()
        self.assertEqual(all_files(), before)

    @proves("svcctl doctor")
    def test_no_secret_is_ever_printed(self) -> None:
        secrets = {
            value(self.folder, component, name)
            for component, name in (
                ("metagame", "GATEWAY_SECRET"),
                ("metagame", "AUTH_SIGNING_PRIVKEY_B64"),
                ("gateway", "GATEWAY_SECRET"),
                ("gateway", "ALLOWLIST_SECRET"),
                ("deploy", "METAGAME_API_KEY"),
            )
        } | {(self.folder / "owner.key").read_text().strip()}
        planted = hex_token(64)
        for component, name in (
            ("gateway", "GATEWAY_SECRET"),
            ("allowlist", "ALLOWLIST_SECRET"),
            ("deploy", "METAGAME_API_KEY"),
            ("metagame", "AUTH_SIGNING_PRIVKEY_B64"),
        ):
            self.plant(component, name, planted)
        self.plant("metagame", "DATABASE_URL", f"postgresql://u:{planted}@127.0.0.1:1/x")
        for words in ((), ("--json",)):
            ran = self.doctor(*words)
            self.assertEqual(ran.status, 1)
            for secret in secrets | {planted}:
                self.assertNotIn(secret, ran.out + ran.err)


class SettingsTests(DoctorCase):
    @proves("svcctl doctor")
    def test_each_bad_setting_is_found_with_its_cure(self) -> None:
        for component, name, new, fault, cure in FAULTS:
            file = self.folder / f"{component}.env"
            before = file.read_text()
            with self.subTest(name=name, new=new):
                self.plant(component, name, new)
                self.finds(fault, cure)
            file.write_text(before)

    def test_each_doubtful_setting_is_only_noted(self) -> None:
        for component, name, new, note in NOTES:
            self.plant(component, name, new)
            self.assertEqual(self.wrong(), [])
            self.assertIn(note, self.notes())

    @proves("svcctl doctor")
    def test_a_bad_value_in_any_component_is_a_fault_with_its_file(self) -> None:
        for component, name, bad in (
            ("metagame", "PORT", "70000"),
            ("metagame", "STORE", "cheap"),
            ("metagame", "FLEET_PORT", "0"),
            ("metagame", "CHAT_MESSAGE_RATE", "fast"),
            ("deploy", "PORT", "x"),
            ("content", "CONTENT_AUTH_CACHE_SECONDS", "-1"),
            ("gateway", "GATEWAY_RATE_TOKEN", "10"),
            ("allowlist", "ALLOWLIST_TTL_SECONDS", "0"),
            ("relay", "SVC_RELAY_CONNECT_TIMEOUT_MS", "1"),
        ):
            self.setUp()
            self.plant(component, name, bad)
            [line] = self.wrong()
            self.assertIn(f"{component}: {name} must be", line)
            self.assertIn(f"correct it in {self.folder / component}.env", line)

    def test_a_missing_setting_is_a_fault(self) -> None:
        self.drop("gateway", "ALLOWLIST_SECRET")
        self.finds("ALLOWLIST_SECRET is not set", "give it a value")

    def test_a_host_that_counts_nothing_is_noted(self) -> None:
        self.drop("metagame", "BACKEND_HEALTH")
        self.assertEqual(self.wrong(), [])
        self.assertIn("BACKEND_HEALTH is off", self.notes())

    def test_an_env_file_that_is_not_utf_8_is_a_fault(self) -> None:
        (self.folder / "relay.env").write_bytes(b"\xff\xfe\x00")
        self.finds("relay.env cannot be read: it is not UTF-8 text", "save it as UTF-8")

    def test_a_component_that_is_not_here_is_only_a_note(self) -> None:
        for name in ("gateway", "allowlist", "relay", "content", "deploy"):
            (self.folder / f"{name}.env").unlink()
        self.assertEqual(self.wrong(), [])
        self.assertIn("there is no gateway.env", self.notes())

    def test_a_private_host_needs_no_gateway(self) -> None:
        for name in ("gateway", "allowlist", "relay"):
            (self.folder / f"{name}.env").unlink()
        self.drop("metagame", "GATEWAY_SECRET")
        self.assertNotIn(".env; this is fine", self.notes())

    def test_notes_that_nobody_can_play_come_first(self) -> None:
        (self.folder / "gateway.env").unlink()
        notes = self.notes()
        playable = notes.index("holds no game yet"), notes.index("CITY_MAP is still")
        others = notes.index("there is no gateway.env"), notes.index("ALLOWLIST_DRY_RUN")
        self.assertLess(max(playable), min(others))

    def test_an_unknown_hunt_pass_is_a_fault(self) -> None:
        self.plant("metagame", "ACTIVE_HUNT_PASS", "season99")
        [line] = self.wrong()
        self.assertIn("ACTIVE_HUNT_PASS", line)


class MatchingTests(DoctorCase):
    @proves("svcctl doctor")
    def test_secrets_that_differ_between_components_are_a_fault(self) -> None:
        right = value(self.folder, "gateway", "GATEWAY_SECRET")
        for component in ("metagame", "content"):
            self.plant(component, "GATEWAY_SECRET", hex_token(64))
            self.finds(
                "GATEWAY_SECRET differs from that in gateway.env",
                f"put the same value in {component}.env",
            )
            self.plant(component, "GATEWAY_SECRET", right)
        for component in ("gateway", "metagame"):
            right = value(self.folder, component, "ALLOWLIST_SECRET")
            self.plant(component, "ALLOWLIST_SECRET", hex_token(64))
            what = "ALLOWLIST_SECRET differs from that in allowlist.env"
            self.finds(what, f"put the same value in {component}.env")
            self.plant(component, "ALLOWLIST_SECRET", right)

    def test_a_wrong_allowlist_url_is_a_fault_and_a_missing_url_a_note(self) -> None:
        self.plant("metagame", "ALLOWLIST_URL", "http://127.0.0.1:61004")
        self.finds("ALLOWLIST_URL leads to port 61004", "set the port to 61005 in metagame.env")
        for name in ("ALLOWLIST_URL", "ALLOWLIST_SECRET"):
            self.drop("metagame", name)
        self.assertEqual(self.wrong(), [])
        self.assertIn("a ban leaves the game ports open", self.notes())

    def test_a_service_without_the_gateway_secret_is_a_fault(self) -> None:
        for component in ("metagame", "content"):
            right = value(self.folder, component, "GATEWAY_SECRET")
            self.drop(component, "GATEWAY_SECRET")
            self.finds("GATEWAY_SECRET is not set", "copy it there from gateway.env")
            path = self.folder / f"{component}.env"
            path.write_text(f"{path.read_text()}GATEWAY_SECRET={right}\n")

    def test_signing_keys_of_two_pairs_are_a_fault(self) -> None:
        self.plant("metagame", "AUTH_SIGNING_PUBKEY_B64", new_signing_keys().public)
        self.finds("are not a pair", "put both keys of one pair in metagame.env")

    def test_invalid_signing_keys_are_a_fault(self) -> None:
        good = value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64")
        self.plant("metagame", "AUTH_SIGNING_PRIVKEY_B64", "bm8ga2V5")
        self.finds("nobody can log in", "put both keys of one pair")
        self.plant("metagame", "AUTH_SIGNING_PRIVKEY_B64", good)
        self.plant("metagame", "AUTH_SIGNING_PUBKEY_B64", "?")
        self.finds("no token is accepted", "put both keys of one pair")

    def test_an_address_on_another_machine_is_left_alone(self) -> None:
        self.plant("content", "METAGAME_URL", "http://100.64.0.9:7000")
        self.assertEqual(self.wrong(), [])

    @proves("private mode: the metagame on the overlay address, no gateway (svcctl init)")
    def test_a_public_metagame_without_a_gateway_is_a_fault(self) -> None:
        (self.folder / "gateway.env").unlink()
        self.drop("metagame", "GATEWAY_SECRET")
        for host in ("127.0.0.1", "100.64.0.9"):
            self.plant("metagame", "BIND_HOST", host)
            self.assertEqual(self.wrong(), [])
        self.plant("metagame", "BIND_HOST", "0.0.0.0")
        self.finds("the metagame is open to everybody", "overlay address")

    def test_a_name_without_an_address_is_a_note(self) -> None:
        unresolved = Quiet(names={"203.0.113.10": ""})
        self.assertEqual(self.wrong(unresolved), [])
        self.assertIn("has no IPv4 address; correct its DNS entry", self.notes(unresolved))

    def test_own_name_in_the_hosts_file_gives_no_note_on_my_ip(self) -> None:
        self.plant("deploy", "MY_IP", "203.0.113.99")
        own = Quiet(names={"203.0.113.10": "127.0.1.1"})
        self.assertEqual(self.wrong(own), [])
        self.assertNotIn("MY_IP", self.notes(own))
