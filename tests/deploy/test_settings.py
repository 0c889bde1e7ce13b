"""Each setting of the deploy server: its default, and the effect of a bad value.

Spec: 2 §4 Deploy server; docs/owners/configuration.md.
"""

import os
import tempfile
from pathlib import Path

from attrs import evolve, fields
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.fleet import GameServer
from svcserver.deploy.hunts import GameServerKind, Unlaunchable
from svcserver.deploy.orders import KEYLESS
from svcserver.deploy.service import FILE, SigningKeys, _at_boot, supervise
from svcserver.deploy.settings import DeploySettings, check
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import BadSetting, load
from tests.deploy.supervised import CITY, HUNT, FakeSpawner
from tests.support.proves import proves

GOOD = {"PORT": "61001"}
WHOLE = {
    **GOOD,
    "MY_IP": "203.0.113.9",
    "PORT_RANGE_BEGIN": "8770",
    "PORT_RANGE_END": "8777",
    "GAMESERVER_BINARY_PATH": "/srv/game",
    "METAGAME_API_KEY": "hush",
    "CITY_MAP": "/Game/Maps/city/a",
}


def read(**more: str) -> DeploySettings:
    """Return the settings of a host with these variables."""
    return load(DeploySettings, {**GOOD, **more})[0]


class DefaultTests(SynchronousTestCase):
    @proves("deploy: binds 127.0.0.1 by default")
    def test_port_is_the_only_required_setting(self) -> None:
        with self.assertRaises(BadSetting) as caught:
            load(DeploySettings, {})
        self.assertIn("PORT is not set", str(caught.exception))
        settings, warnings = load(DeploySettings, GOOD)
        self.assertEqual(warnings, [])
        wanted = {
            "port": 61001,
            "bind_host": "127.0.0.1",
            "node_env": "",
            "log_level": "info",
            "metrics_port": None,
            "my_ip": "",
            "first_port": 0,
            "last_port": 0,
            "engine": "process",
            "docker": "/var/run/docker.sock",
            "docker_certificates": "",
            "image": "",
            "trusted": (),
            "cpus": 1.0,
            "binary": "",
            "launcher": (),
            "arguments": ("-server", "-nullrhi"),
            "key": None,
            "signing_key": None,
            "launch_keys": False,
            "city_map": "",
            "trials_map": "",
            "spacing_s": 0.0,
            "dojo_at_boot": False,
            "liveness": True,
            "hunt_worker": False,
            "memory_guard": True,
            "min_free_mb": "3072",
            "startup_mb": "1536",
            "hunt_startup_mb": "",
            "reservation_seconds": "60",
            "startup_grace_ms": "0",
            "frozen_s": 120,
            "ready_dir": "",
        }
        self.assertEqual(
            {setting.name: getattr(settings, setting.name) for setting in fields(DeploySettings)},
            wanted,
        )

    def test_missing_settings_are_warned_about_at_the_start(self) -> None:
        self.assertEqual(check(load(DeploySettings, WHOLE)[0]), [])
        for name in set(WHOLE) - {"PORT"}:
            [line] = check(load(DeploySettings, {**WHOLE, name: ""})[0])
            self.assertIn(name, line)
        [line] = check(load(DeploySettings, {**WHOLE, "PORT_RANGE_BEGIN": "8776"})[0])
        self.assertIn("leave no port for hunts", line)
        worker = load(DeploySettings, {**WHOLE, "CITY_MAP": "", "HUNT_WORKER": "1"})[0]
        self.assertEqual(check(worker), [])

    def test_switches_accept_one_value_each(self) -> None:
        for text, off, on in (("0", False, False), ("1", True, True), ("yes", False, True)):
            settings = read(
                ENABLE_DOJO=text,
                HUNT_WORKER=text,
                PERSISTENT_WORLD_LIVENESS=text,
                GAMESERVER_MEMORY_GUARD=text,
            )
            self.assertEqual((settings.dojo_at_boot, settings.hunt_worker), (off, off))
            self.assertEqual((settings.liveness, settings.memory_guard), (on, on))

    def test_the_city_and_an_enabled_dojo_start_at_boot(self) -> None:
        self.assertEqual(_at_boot(read()), [GameServerKind.CITY])
        self.assertEqual(
            _at_boot(read(ENABLE_DOJO="1")), [GameServerKind.CITY, GameServerKind.DOJO]
        )
        self.assertEqual(_at_boot(read(ENABLE_DOJO="1", HUNT_WORKER="1")), [])

    def test_arguments_can_be_set_to_none(self) -> None:
        self.assertEqual(read(GAMESERVER_ARGS="").arguments, ())
        self.assertEqual(read(GAMESERVER_ARGS=" -a  -b=c ").arguments, ("-a", "-b=c"))
        self.assertEqual(read(GAMESERVER_LAUNCHER="wine start").launcher, ("wine", "start"))


class BadValueTests(SynchronousTestCase):
    @proves("deploy: binds 127.0.0.1 by default")
    def test_bad_address_or_port_prevents_the_start(self) -> None:
        for name, values in {
            "PORT": ["", "0", "65536", "x", "-1"],
            "BIND_HOST": ["nowhere", "127.0.0.1,::1", "1.2.3"],
            "METRICS_PORT": ["0", "x"],
        }.items():
            for value in values:
                with self.assertRaises(BadSetting) as caught:
                    load(DeploySettings, {**GOOD, name: value})
                self.assertIn(name, str(caught.exception))

    @proves("deploy: launches queued SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP apart")
    def test_bad_optional_value_warns_and_gives_the_default(self) -> None:
        for name, attribute, values in (
            ("MY_IP", "my_ip", ["x", "::1", "1.2.3", "1.2.3.256", "host.example"]),
            ("PORT_RANGE_BEGIN", "first_port", ["x", "0", "70000"]),
            ("PORT_RANGE_END", "last_port", ["x", "0", "70000"]),
            ("CITY_MAP", "city_map", ["city", "/Game", "/Game/a b", "/Game/a;b"]),
            ("TRIALS_MAP", "trials_map", ["city", "/Game/../x"]),
            ("SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP", "spacing_s", ["-1", "x", "nan", "inf"]),
            ("LOG_LEVEL", "log_level", ["loud"]),
        ):
            usual = getattr(read(), attribute)
            for value in values:
                settings, [line] = load(DeploySettings, {**GOOD, name: value})
                self.assertEqual(getattr(settings, attribute), usual)
                self.assertIn(name, line)

    def test_a_range_is_at_least_two_ports(self) -> None:
        for first, last, good in ((8770, 8771, True), (8771, 8771, False), (8777, 8770, False)):
            settings = read(PORT_RANGE_BEGIN=str(first), PORT_RANGE_END=str(last))
            self.assertEqual(settings.has_ports, good)


class LaunchTests(SynchronousTestCase):
    """Bad values with which the deploy server starts, but every launch fails.

    The documentation marks them with ``launch 500``.
    """

    def launch(self, more: dict[str, str], request: LaunchRequest = HUNT) -> Deferred[GameServer]:
        """Request a game server from a supervisor with these settings."""
        environ = {**WHOLE, "GAMESERVER_MEMORY_GUARD": "0", **more}
        supervisor = supervise(load(DeploySettings, environ)[0], Clock(), {})
        supervisor.program = evolve(supervisor.program, output=None)
        supervisor.engine = spawner = FakeSpawner()
        supervisor.is_bound = lambda port: False
        self.commands = spawner.commands
        return Deferred.fromCoroutine(supervisor.hand_out(request))

    def test_with_good_values_a_server_is_handed_out(self) -> None:
        self.assertEqual(self.successResultOf(self.launch({})).port, 8775)
        self.assertEqual(self.commands[0][:2], ["/srv/game", "hush"])

    @proves("deploy: 500 no_game_server")
    def test_bad_launch_setting_is_named_and_fails_the_launch(self) -> None:
        on = {"GAMESERVER_MEMORY_GUARD": "1"}
        for name, values, more in (
            ("MY_IP", ["", "::1"], {}),
            ("PORT_RANGE", ["x"], {"PORT_RANGE_BEGIN": "9000"}),
            ("GAMESERVER_MIN_FREE_MB", ["0", "x", "1.5", "-1"], on),
            ("GAMESERVER_STARTUP_MB", ["0", "x"], on),
            ("GAMESERVER_HUNT_STARTUP_MB", ["0", "x"], on),
            ("GAMESERVER_RESERVATION_SECONDS", ["0", "x"], on),
            ("GAMESERVER_STARTUP_GRACE_MS", ["-1", "60001", "x"], {}),
            ("GAMESERVER_READY_DIR", ["/no/such/folder"], {}),
        ):
            for value in values:
                why = self.failureResultOf(self.launch({**more, name: value}), Unlaunchable)
                self.assertIn(name, str(why.value))

    @proves("deploy: 500 no_game_server")
    def test_missing_map_fails_only_launches_on_it(self) -> None:
        trial = LaunchRequest("ISLAND", "", "CR19_PlayerHunt_Arena_Elite", ("UID-a",))
        for name, request in (("CITY_MAP", CITY), ("TRIALS_MAP", trial)):
            for value in ("", "no map"):
                self.failureResultOf(self.launch({name: value}, request), Unlaunchable)
                self.successResultOf(self.launch({name: value}))

    def test_launch_without_a_key_works(self) -> None:
        self.successResultOf(self.launch({"METAGAME_API_KEY": ""}))
        self.assertEqual(self.commands[0][1], KEYLESS)


class SigningKeysTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file, self.written = folder / FILE, 0
        self.keys = SigningKeys.beside(str(folder / "deploy.env"))

    def write(self, text: str) -> None:
        self.written += 1
        self.file.write_text(text)
        os.utime(self.file, ns=(self.written, self.written))

    def test_the_key_beside_the_env_file_counts(self) -> None:
        self.write(f"PORT=61000\n{SIGNING_KEY}=first\n")
        self.assertEqual((self.keys(), self.keys.warning()), (["first"], ""))
        self.assertNotIn("first", repr(self.keys))

    def test_after_a_rotation_the_previous_key_stays_valid(self) -> None:
        for key in ("first", "second", "second", "third"):
            self.write(f"{SIGNING_KEY}={key}\n")
            self.keys()
        self.assertEqual(self.keys(), ["third", "second"])

    def test_a_file_that_is_away_for_a_moment_takes_no_key_back(self) -> None:
        self.write(f"{SIGNING_KEY}=first\n")
        self.keys()
        self.file.unlink()
        self.assertEqual(self.keys(), ["first"])

    def test_without_a_key_one_line_names_the_file_and_the_cure(self) -> None:
        for text in ("", "PORT=1\n", f"{SIGNING_KEY}=\n"):
            self.write(text)
            self.assertIn(str(self.file), self.keys.warning())
            self.assertIn("--env-file", self.keys.warning())

    def test_a_key_in_the_environment_wins(self) -> None:
        self.write(f"{SIGNING_KEY}=first\n")
        keys = SigningKeys.beside(str(self.file), Secret("given"))
        self.assertEqual(keys(), ["given"])
