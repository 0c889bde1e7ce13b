"""``svcctl doctor``: every planted fault is found, with its cure. Spec: 2 §8."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from attrs import define, field

from svcserver.allowlist import firewall
from svcserver.ctl.doctor.case import Finding, Level
from svcserver.ctl.doctor.command import examine
from svcserver.ctl.doctor.machine import Limits, Machine, Port, Room
from svcserver.ctl.host import Host
from svcserver.ctl.keys import new_signing_keys
from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.edge.certificate import make_pair, write_pair
from svcserver.kernel.secrets import hex_token
from tests.ctl.command import svcctl
from tests.ctl.hosts import change, value
from tests.ctl.test_accounts import HostCase
from tests.support.postgres import fresh_database

GB = 1024**3


@define
class Quiet(Machine):
    """A machine with all that a host needs, on which nothing runs."""

    at: float | None = None
    disk: Room = field(factory=lambda: Room(100 * GB, 50 * GB))
    files: Limits = field(factory=lambda: Limits(65_536, 65_536))
    bytes_of_memory: int | None = 16 * GB
    taken: Mapping[int, Port] = field(factory=dict)
    says: Mapping[int, tuple[int, bytes]] = field(factory=dict)
    shows: str = ""
    root: bool = True
    names: Mapping[str, str] = field(factory=dict)

    def now(self) -> float:
        return super().now() if self.at is None else self.at

    def room(self, path: Path) -> Room:
        return self.disk

    def open_files(self) -> Limits:
        return self.files

    def memory(self) -> int | None:
        return self.bytes_of_memory

    def port(self, host: str, port: int, *, udp: bool = False) -> Port:
        return self.taken.get(port, Port())

    def addresses(self, host: str) -> frozenset[str]:
        found = self.names.get(host, host)
        return frozenset([found] if found else [])

    def answer(
        self, host: str, port: int, path: str, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        return self.says.get(port, (0, b""))

    def presented(self, host: str, port: int) -> str:
        return self.shows

    def may_change_firewall(self) -> bool:
        return self.root


class DoctorCase(HostCase):
    def look(self, machine: Machine | None = None) -> Sequence[Finding]:
        return examine(Host(self.folder), self.folder, machine or Quiet())

    def wrong(self, machine: Machine | None = None) -> list[str]:
        return [str(one) for one in self.look(machine) if one.level is Level.WRONG]

    def notes(self, machine: Machine | None = None) -> str:
        return "\n".join(str(one) for one in self.look(machine) if one.level is Level.NOTE)

    def finds(self, what: str, cure: str, machine: Machine | None = None) -> None:
        """That fault and nothing else, with its cure."""
        [line] = self.wrong(machine)
        found, _, said = line.partition("; ")
        self.assertIn(what, found)
        self.assertIn(cure, said)

    def plant(self, component: str, name: str, new: str) -> None:
        change(self.folder, component, name, new)

    def drop(self, component: str, name: str) -> None:
        path = self.folder / f"{component}.env"
        kept = [one for one in path.read_text().splitlines() if not one.startswith(f"{name}=")]
        path.write_text("\n".join([*kept, ""]))


class CommandTests(DoctorCase):
    def doctor(self, *words: str, machine: Machine | None = None) -> Any:
        with mock.patch("svcserver.ctl.doctor.command.Machine", lambda: machine or Quiet()):
            return self.ctl("doctor", *words)

    def test_a_new_host_is_healthy(self) -> None:
        ran = self.doctor()
        self.assertEqual((ran.status, ran.err), (0, ""), ran.out)
        self.assertTrue(ran.out.endswith("nothing is wrong\n"))
        self.assertNotIn("wrong  ", ran.out)

    def test_a_finding_is_status_1_with_its_cure_in_the_same_line(self) -> None:
        self.plant("deploy", "GAMESERVER_BINARY_PATH", "/nowhere/server")
        ran = self.doctor()
        self.assertEqual(ran.status, 1)
        self.assertEqual(ran.line, "svcctl: 1 thing is wrong")
        first = ran.out.splitlines()[0]
        self.assertRegex(first, r"^wrong  deploy: .*/nowhere/server is missing; put the path")

    def test_for_machines_every_finding_has_four_words(self) -> None:
        self.plant("metagame", "NODE_ENV", "")
        ran = self.doctor("--json")
        self.assertEqual((ran.status, ran.data["ok"]), (1, False))
        for one in ran.data["findings"]:
            self.assertEqual(list(one), ["level", "component", "what", "cure"])
            self.assertTrue(all(one.values()), one)

    def test_without_a_folder_there_is_nothing_to_look_at(self) -> None:
        gone = self.folder / "nowhere"
        for words in (("--env-file", str(self.folder / "metagame.env")), ("--config", str(gone))):
            with mock.patch("svcserver.ctl.host.Path.is_file", return_value=False):
                ran = svcctl("doctor", *words)
            self.assertEqual(ran.status, 1)
            self.assertTrue(ran.line.startswith("svcctl: "))

    def test_it_changes_nothing(self) -> None:
        def all_files() -> dict[str, bytes]:
            return {
                str(one): one.read_bytes()
                for one in self.folder.rglob("*")
                if one.is_file() and one.suffix not in (".db-wal", ".db-shm")
            }

        before = all_files()
        self.doctor()
        self.assertEqual(all_files(), before)

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
    def test_a_bad_value_in_each_component(self) -> None:
        for component, name, bad in (
            ("metagame", "PORT", "70000"),
            ("metagame", "STORE", "cheap"),
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

    def test_a_setting_that_is_missing(self) -> None:
        self.drop("gateway", "ALLOWLIST_SECRET")
        self.finds("ALLOWLIST_SECRET is not set", "give it a value")

    def test_a_misspelt_name(self) -> None:
        self.plant("metagame", "REGISTRATON_MODE", "OPEN")
        self.finds("REGISTRATON_MODE is no setting", "write REGISTRATION_MODE in")

    def test_a_registration_mode_that_is_none(self) -> None:
        self.plant("metagame", "REGISTRATION_MODE", "Open")
        self.finds("nobody can register", "REGISTRATION_MODE=INVITECODE")

    def test_not_in_production(self) -> None:
        self.plant("deploy", "NODE_ENV", "development")
        self.finds("NODE_ENV is not production", "NODE_ENV=production in deploy.env")

    def test_a_login_method_that_public_mode_forbids(self) -> None:
        self.plant("metagame", "AUTH_MODE", "NONE")
        self.finds("AUTH_MODE must be APIKEY", "correct it in")

    def test_a_guard_that_makes_every_launch_fail(self) -> None:
        self.plant("deploy", "GAMESERVER_STARTUP_MB", "much")
        self.finds("GAMESERVER_STARTUP_MB must be a whole number", "correct it in")

    def test_no_ports_and_no_address_for_game_servers(self) -> None:
        self.plant("deploy", "MY_IP", "")
        self.finds("MY_IP is not set: no game server can be handed out", "correct it in")

    def test_an_env_file_that_is_no_text(self) -> None:
        (self.folder / "relay.env").write_bytes(b"\xff\xfe\x00")
        self.finds("relay.env cannot be read: it is not UTF-8 text", "svcctl init")

    def test_a_component_that_is_not_here_is_only_a_note(self) -> None:
        for name in ("gateway", "allowlist", "relay", "content", "deploy"):
            (self.folder / f"{name}.env").unlink()
        self.assertEqual(self.wrong(), [])
        self.assertIn("there is no gateway.env", self.notes())

    def test_a_content_server_open_to_the_world(self) -> None:
        self.plant("content", "BIND_HOST", "0.0.0.0")
        self.finds("BIND_HOST 0.0.0.0 is neither loopback", "let the gateway be public")

    def test_a_broken_season(self) -> None:
        self.plant("metagame", "ACTIVE_HUNT_PASS", "season99")
        [line] = self.wrong()
        self.assertIn("ACTIVE_HUNT_PASS", line)


class MatchingTests(DoctorCase):
    def test_secrets_that_differ(self) -> None:
        self.plant("gateway", "GATEWAY_SECRET", hex_token(64))
        self.finds("GATEWAY_SECRET is not the one of gateway.env", "put the same value in")
        self.plant("gateway", "GATEWAY_SECRET", value(self.folder, "metagame", "GATEWAY_SECRET"))
        self.plant("allowlist", "ALLOWLIST_SECRET", hex_token(64))
        self.finds("ALLOWLIST_SECRET is not the one of allowlist.env", "put the same value in")

    def test_a_gateway_whom_the_metagame_does_not_trust(self) -> None:
        self.drop("metagame", "GATEWAY_SECRET")
        self.finds("GATEWAY_SECRET is not set", "copy it there from gateway.env")

    def test_signing_keys_of_two_pairs(self) -> None:
        self.plant("metagame", "AUTH_SIGNING_PUBKEY_B64", new_signing_keys().public)
        self.finds("are no pair", "put both of one pair in metagame.env")

    def test_signing_keys_that_are_none(self) -> None:
        good = value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64")
        self.plant("metagame", "AUTH_SIGNING_PRIVKEY_B64", "bm8ga2V5")
        self.finds("nobody can log in", "put both of one pair")
        self.plant("metagame", "AUTH_SIGNING_PRIVKEY_B64", good)
        self.plant("metagame", "AUTH_SIGNING_PUBKEY_B64", "?")
        self.finds("no token is accepted", "put both of one pair")

    def test_every_address_that_leads_to_the_wrong_port(self) -> None:
        for component, name, new, right in (
            ("gateway", "GATEWAY_METAGAME_URL", "http://127.0.0.1:61009", 61000),
            ("gateway", "GATEWAY_CONTENT_URL", "http://127.0.0.1:61009", 61002),
            ("gateway", "GATEWAY_WS_URL", "http://localhost:61009", 61099),
            ("gateway", "ALLOWLIST_URL", "http://127.0.0.1:61009", 61005),
            ("content", "METAGAME_URL", "http://127.0.0.1:61009", 61000),
            ("metagame", "DEPLOYSERVER_URL", "127.0.0.1:61009", 61001),
        ):
            before = (self.folder / f"{component}.env").read_text()
            self.plant(component, name, new)
            self.finds(f"{name} leads to port 61009", f"set the port to {right} in {component}.env")
            (self.folder / f"{component}.env").write_text(before)

    def test_an_address_on_another_machine_is_left_alone(self) -> None:
        self.plant("content", "METAGAME_URL", "http://100.64.0.9:7000")
        self.assertEqual(self.wrong(), [])

    def test_a_metagame_that_strangers_reach_past_no_gateway(self) -> None:
        (self.folder / "gateway.env").unlink()
        self.drop("metagame", "GATEWAY_SECRET")
        for host in ("127.0.0.1", "100.64.0.9"):
            self.plant("metagame", "BIND_HOST", host)
            self.assertEqual(self.wrong(), [])
        self.plant("metagame", "BIND_HOST", "0.0.0.0")
        self.finds("every stranger reaches every route", "overlay address")

    def test_a_deploy_server_address_with_a_scheme(self) -> None:
        self.plant("metagame", "DEPLOYSERVER_URL", "http://127.0.0.1:61001")
        self.finds("DEPLOYSERVER_URL is not host:port", "without http://")

    def test_two_cities(self) -> None:
        self.plant("metagame", "CITY_MAP", "/Game/Maps/other/other_persistent")
        self.finds("CITY_MAP is not the one of deploy.env", "the same map")

    def test_game_ports_that_nobody_opens(self) -> None:
        self.plant("deploy", "PORT_RANGE_BEGIN", "8700")
        self.finds("ALLOWLIST_PORTS is 8770-8777", "ALLOWLIST_PORTS=8700-8777")

    def test_an_address_only_this_machine_reaches_is_a_note(self) -> None:
        self.plant("deploy", "MY_IP", "127.0.0.1")
        self.assertEqual(self.wrong(), [])
        self.assertIn("only this machine can play", self.notes())

    def test_an_address_that_is_no_longer_the_hosts_is_a_note(self) -> None:
        self.plant("deploy", "MY_IP", "203.0.113.99")
        self.assertEqual(self.wrong(), [])
        self.assertIn("MY_IP is 203.0.113.99, but 203.0.113.10 is 203.0.113.10", self.notes())

    def test_a_name_without_an_address_is_a_note(self) -> None:
        lost = Quiet(names={"203.0.113.10": ""})
        self.assertEqual(self.wrong(lost), [])
        self.assertIn("has no IPv4 address; correct its DNS entry", self.notes(lost))

    def test_a_gateway_that_nobody_outside_reaches(self) -> None:
        self.plant("gateway", "GATEWAY_BIND", "127.0.0.1")
        self.finds("only this machine reaches the gateway", "GATEWAY_BIND=0.0.0.0")


class CertificateTests(DoctorCase):
    def write(self, *hosts: str, **options: Any) -> None:
        write_pair(make_pair(hosts, **options), self.folder, force=True)
        shown = self.ctl("cert", "fingerprint").out.strip()
        self.plant("relay", "SVC_RELAY_FINGERPRINT", shown)

    def test_expired(self) -> None:
        self.write("203.0.113.10", now=datetime.now(UTC) - timedelta(days=800), years=1)
        self.finds("the certificate expired on", "svcctl cert make")

    def test_soon(self) -> None:
        self.write("203.0.113.10", now=datetime.now(UTC) - timedelta(days=350), years=1)
        self.finds("the certificate expires in", "svcctl cert make")

    def test_not_yet(self) -> None:
        self.write("203.0.113.10", now=datetime.now(UTC) + timedelta(days=30))
        self.finds("is not valid before", "clock")

    def test_of_another_key(self) -> None:
        pair = make_pair(["203.0.113.10"])
        (self.folder / "gateway-key.pem").write_bytes(pair.key)
        self.finds("the key does not belong to the certificate", "the matching pair")

    def test_that_does_not_name_the_host(self) -> None:
        self.write("other.example")
        self.finds("does not name 203.0.113.10", "cert make --force --host 203.0.113.10")
        self.plant("relay", "SVC_RELAY_HOST", "OTHER.example")
        self.assertEqual(self.wrong(), [])

    def test_that_is_not_there(self) -> None:
        (self.folder / "gateway-cert.pem").unlink()
        self.finds("the certificate cannot be read", "svcctl cert make")

    def test_that_is_none(self) -> None:
        (self.folder / "gateway-cert.pem").write_text("no")
        self.finds("is not a PEM certificate", "svcctl cert make")

    def test_that_invites_do_not_pin(self) -> None:
        self.plant("relay", "SVC_RELAY_FINGERPRINT", "0" * 64)
        self.finds("SVC_RELAY_FINGERPRINT is not that", "svcctl cert fingerprint")


class FileTests(DoctorCase):
    def test_secrets_that_others_can_read(self) -> None:
        for name in ("metagame.env", "gateway-key.pem", "owner.key", "svc.db"):
            (self.folder / name).chmod(0o640)
            self.finds(f"{name} can be read by others (mode 0640)", f"chmod 600 {self.folder}")
            (self.folder / name).chmod(0o600)

    def test_a_game_server_that_cannot_be_run(self) -> None:
        program = self.folder / "server.sh"
        program.write_text("#!/bin/sh\n")
        self.plant("deploy", "GAMESERVER_BINARY_PATH", str(program))
        program.chmod(0o600)
        with mock.patch("svcserver.ctl.doctor.files.may_run", return_value=False):  # as root too
            self.finds("cannot be run", f"chmod +x {program}")
        program.chmod(0o700)
        self.assertEqual(self.wrong(), [])

    def test_a_launcher_that_is_missing(self) -> None:
        for word in ("/nowhere/run", "no-such-launcher"):
            self.plant("deploy", "GAMESERVER_LAUNCHER", f"{word} --fast")
            self.finds(f"GAMESERVER_LAUNCHER starts with {word}", "leave it out")
        self.plant("deploy", "GAMESERVER_LAUNCHER", "env -i")  # found on PATH
        self.assertEqual(self.wrong(), [])

    def test_no_folder_of_game_files(self) -> None:
        shutil.rmtree(self.folder / "game")
        self.finds("CONTENT_GAME_DIR must name a folder that exists", "correct it in")

    def test_no_manifest_or_a_broken_one(self) -> None:
        (self.folder / "manifest.json").unlink()
        self.finds("manifest.json cannot be read", "svcctl content manifest")
        (self.folder / "manifest.json").write_text("{")
        self.finds("manifest.json is", "svcctl content manifest")

    def test_game_files_that_changed_or_went_after_the_manifest(self) -> None:
        (self.folder / "game" / "README.txt").write_text("another length")
        self.finds("README.txt is not as the manifest says", "svcctl content manifest")
        (self.folder / "game" / "README.txt").unlink()
        self.finds("README.txt is in the manifest but not there", "svcctl content manifest")


class DatabaseTests(DoctorCase):
    def test_missing(self) -> None:
        (self.folder / "svc.db").unlink()
        lines = self.wrong()
        self.assertIn("there is no database", lines[0])
        self.assertIn("svcctl db upgrade", lines[0])
        self.assertFalse((self.folder / "svc.db").exists())

    def test_damaged(self) -> None:
        file = self.folder / "svc.db"
        file.write_bytes(file.read_bytes()[:40_000] + b"\xee" * 40_000)
        lines = self.wrong()
        self.assertIn("is damaged", lines[0])
        self.assertIn("svcctl db restore", lines[0])

    def test_behind(self) -> None:
        (self.folder / "svc.db").unlink()
        os.close(os.open(self.folder / "svc.db", os.O_CREAT | os.O_WRONLY, 0o600))
        engine = make_engine(database_url(f"sqlite:///{self.folder / 'svc.db'}"))
        migrations.upgrade(engine, migrations.revisions()[0])
        engine.dispose()
        self.finds("this version wants", "svcctl db upgrade")

    def test_empty(self) -> None:
        self.plant("metagame", "DATABASE_URL", f"sqlite:///{self.folder / 'new.db'}")
        os.close(os.open(self.folder / "new.db", os.O_CREAT | os.O_WRONLY, 0o600))
        self.finds("it is empty", "svcctl db upgrade")

    def test_of_a_later_version(self) -> None:
        with closing(sqlite3.connect(self.folder / "svc.db")) as one:
            one.execute("UPDATE alembic_version SET version_num = '9999'")
            one.commit()
        self.finds("9999 is of a newer version", "install the version")

    def test_in_memory(self) -> None:
        self.plant("metagame", "DATABASE_URL", "sqlite://")
        self.finds("a restart loses everything", "DATABASE_URL=sqlite:///svc.db")

    def test_a_server_that_does_not_answer(self) -> None:
        self.plant("metagame", "DATABASE_URL", "postgresql://u:hidden@127.0.0.1:1/x")
        [line] = self.wrong()
        self.assertIn("database: it cannot be used", line)
        self.assertIn("is PostgreSQL running?", line)
        self.assertNotIn("hidden", line)

    def test_postgresql_that_was_never_upgraded(self) -> None:
        self.plant("metagame", "DATABASE_URL", fresh_database())
        self.finds("it is empty", "svcctl db upgrade")

    def test_a_game_server_key_that_nobody_registered(self) -> None:
        self.plant("deploy", "METAGAME_API_KEY", hex_token(64))
        self.finds("METAGAME_API_KEY is not registered", "svcctl gameserver-key add")

    def test_an_owner_key_of_nobody(self) -> None:
        (self.folder / "owner.key").write_text("UUK_x\n")
        self.finds("holds no key of an account", "svcctl account create")

    def test_no_admin_is_a_note(self) -> None:
        self.ctl("account", "demote", "Olga")
        self.assertEqual(self.wrong(), [])
        self.assertIn("no account is an admin", self.notes())


class MachineTests(DoctorCase):
    def test_a_port_that_a_stranger_holds(self) -> None:
        for port, name in (
            (61000, "metagame"),
            (61001, "deploy"),
            (61002, "content"),
            (61005, "allowlist"),
            (61099, "chat"),
            (443, "gateway"),
        ):
            machine = Quiet(taken={port: Port(taken=True)}, says={port: (200, b"<html>")})
            what = f"{port} is held by a program that is not the {name}"
            self.finds(what, "end that program", machine)

    def test_a_port_that_the_host_itself_holds(self) -> None:
        shown = self.ctl("cert", "fingerprint").out.strip()
        says = {
            61000: (200, b'{"playersOnline": 0}'),
            61001: (200, b'{"servers": []}'),
            61002: (200, b'{"files": {}}'),
            61005: (200, b'{"entries": []}'),
            61099: (426, b""),
        }
        taken = {port: Port(taken=True) for port in (443, *says)}
        self.assertEqual(self.wrong(Quiet(taken=taken, says=says, shows=shown)), [])

    def test_another_gateway_on_the_port_is_a_stranger(self) -> None:
        machine = Quiet(taken={443: Port(taken=True)}, shows="0" * 64)
        self.finds("GATEWAY_PORT 443 is held", "end that program", machine)

    def test_a_real_stranger_is_noticed(self) -> None:
        with closing(socket.socket()) as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.listen()
            stranger.settimeout(0.1)
            port = stranger.getsockname()[1]
            machine = Machine()
            self.assertEqual(machine.port("127.0.0.1", port), Port(taken=True))
            with mock.patch("svcserver.ctl.doctor.machine.ANSWER_S", 0.1):
                self.assertEqual(machine.answer("127.0.0.1", port, "/", {}), (0, b""))
                with mock.patch("svcserver.relay.checking.socket.create_connection", fail):
                    self.assertEqual(machine.presented("127.0.0.1", port), "")
        self.assertEqual(machine.port("127.0.0.1", port), Port())

    def test_the_real_machine_answers_every_question(self) -> None:
        machine = Machine()
        self.assertGreater(machine.room(self.folder).free, 0)
        self.assertGreater(machine.open_files().hard, 0)
        self.assertGreater(machine.memory() or 1, 0)
        self.assertEqual(machine.addresses("127.0.0.1"), {"127.0.0.1"})
        self.assertEqual(machine.addresses("no.such.host.invalid"), frozenset())
        self.assertIsInstance(machine.may_change_firewall(), bool)

    def test_two_components_on_one_port(self) -> None:
        self.plant("content", "PORT", "61001")
        self.plant("gateway", "GATEWAY_CONTENT_URL", "http://127.0.0.1:61001")
        self.finds("PORT 61001 is also PORT of the deploy", "a port of its own")

    def test_two_components_that_show_figures_on_one_port(self) -> None:
        self.plant("metagame", "METRICS_PORT", "9100")
        self.plant("gateway", "METRICS_PORT", "9100")
        self.finds("METRICS_PORT 9100 is also METRICS_PORT of the metagame", "a port of its own")

    def test_a_stranger_where_figures_belong(self) -> None:
        self.plant("content", "METRICS_PORT", "9100")
        taken = {9100: Port(taken=True)}
        stranger = Quiet(taken=taken, says={9100: (200, b"node_load1 0.5")})
        self.finds("METRICS_PORT 9100 is held", "end that program", stranger)
        self.assertEqual(
            self.wrong(Quiet(taken=taken, says={9100: (200, b"svc_content_bytes_sent 1")})), []
        )

    def test_a_game_port_that_is_taken(self) -> None:
        machine = Quiet(taken={8772: Port(taken=True)})
        self.finds("UDP port 8772 for game servers is taken", "ss -lunp", machine)

    def test_a_port_that_needs_a_right_is_a_note(self) -> None:
        machine = Quiet(taken={443: Port(denied=True)})
        self.assertEqual(self.wrong(machine), [])
        self.assertIn("CAP_NET_BIND_SERVICE", self.notes(machine))

    def test_a_disk_that_is_nearly_full(self) -> None:
        self.finds("has 100 MB left", "make room", Quiet(disk=Room(100 * GB, 100 * 1024**2)))
        low = Quiet(disk=Room(100 * GB, GB))
        self.assertEqual(self.wrong(low), [])
        self.assertIn("has 1024 MB left", self.notes(low))

    def test_too_few_open_files(self) -> None:
        self.finds("may open 1024 files", "LimitNOFILE=4224", Quiet(files=Limits(1024, 1024)))
        self.finds("may open 4096 files", "LimitNOFILE=4224", Quiet(files=Limits(256, 4096)))

    def test_a_low_limit_that_each_service_raises_itself_is_no_finding(self) -> None:
        usual = Quiet(files=Limits(1024, 65_536))
        self.assertEqual(self.wrong(usual), [])
        self.assertNotIn("LimitNOFILE", self.notes(usual))

    def test_too_little_memory_for_any_game_server_is_a_note(self) -> None:
        self.assertIn("lower GAMESERVER_MIN_FREE_MB", self.notes(Quiet(bytes_of_memory=2 * GB)))

    def test_a_clock_that_is_behind(self) -> None:
        yesterday = datetime.now(UTC).timestamp() - 7200
        self.finds("the clock is behind", "timedatectl", Quiet(at=yesterday))

    def test_no_firewall_program(self) -> None:
        self.plant("allowlist", "ALLOWLIST_DRY_RUN", "0")

        def nothing(name: str) -> None:
            """Not one of them is installed."""

        with mock.patch.object(firewall, "find", nothing):
            self.finds("found neither nft nor iptables", "install nftables")
        self.plant("allowlist", "ALLOWLIST_BACKEND", "iptables")
        with mock.patch.object(firewall, "find", nothing):
            self.finds("needs iptables, which is not there", "ALLOWLIST_IPTABLES")

    def test_a_firewall_that_nobody_drives(self) -> None:
        self.assertIn("ALLOWLIST_DRY_RUN is 1", self.notes())
        self.plant("allowlist", "ALLOWLIST_DRY_RUN", "0")
        self.plant("allowlist", "ALLOWLIST_BACKEND", "none")
        self.finds("ALLOWLIST_BACKEND is none", "ALLOWLIST_BACKEND=auto")

    def test_rights_the_doctor_lacks_are_a_note(self) -> None:
        self.plant("allowlist", "ALLOWLIST_DRY_RUN", "0")
        self.plant("allowlist", "ALLOWLIST_NFT", "/bin/true")
        self.assertIn("may not change the firewall", self.notes(Quiet(root=False)))


def fail(*args: object) -> Any:
    raise OSError
