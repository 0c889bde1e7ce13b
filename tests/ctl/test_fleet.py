"""``svcctl fleet`` without a container engine; tests/live/test_swarm_fleet.py uses an engine."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

from attrs import asdict
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import as_owner, fleet
from svcserver.ctl.as_owner import Owner
from svcserver.ctl.blueprint import Ports
from svcserver.ctl.fleet import Docker, FleetMachine, dockerfile, write_context
from svcserver.ctl.host import Host
from svcserver.ctl.output import Failed, fail
from svcserver.edge.nodes import FleetFolder
from svcserver.kernel import json
from svcserver.kernel.envfile import change
from svcserver.kernel.settings import parse_env_file
from tests.ctl.test_accounts import HostCase
from tests.ctl.test_doctor_swarm import second

NAME = "GAMESERVER_ALLOW_FROM"


class ImageTests(SynchronousTestCase):
    def test_windows_program_gets_wine_in_its_image(self) -> None:
        self.assertIn("wine", dockerfile("debian:12-slim", windows=True))
        self.assertNotIn("wine", dockerfile("debian:12-slim", windows=False))

    def test_context_has_the_game_and_its_entry_point(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "bin").mkdir()
        (folder / "bin/server").write_bytes(b"MZ")
        context = io.BytesIO()
        write_context(context, dockerfile("scratch", windows=True), folder)
        context.seek(0)
        with tarfile.open(fileobj=context) as archive:
            names = archive.getnames()
        self.assertLess({"Dockerfile", "gameserver-entrypoint.sh", "game/bin/server"}, {*names})


class InitTests(HostCase):
    def test_fleet_port_is_no_port_of_a_new_host(self) -> None:
        self.assertNotIn(fleet.FLEET_PORT, asdict(Ports()).values())

    def test_program_that_is_not_in_the_folder_is_named(self) -> None:
        (self.folder / "game").mkdir(exist_ok=True)
        for binary in ("server", "../owner.key"):
            ran = self.ctl("fleet", "init", "--program", self.folder / "game", "--binary", binary)
            self.assertIn(f"has no file {binary}", ran.err)

    def test_without_docker_the_cure_is_named(self) -> None:
        self.patch(fleet.shutil, "which", lambda name: None)
        self.assertIn("apt install docker.io", self.ctl("fleet", "nodes").err)


class ReservationTests(SynchronousTestCase):
    """A hunt's service is deleted between the two commands that read all services."""

    def reserved(self, deleted: int) -> dict[str, int]:
        """Return the reservations that svcctl reads.

        During the first ``deleted`` tries, a service that Docker listed is gone when svcctl
        inspects it.
        """
        rest = iter(range(deleted))

        def run(docker: Docker, *words: str) -> str:
            if words[1] == "ls":
                return "id1 id2\n"
            if next(rest, None) is not None:
                fail("docker service inspect: Error: no such service: id2")
            limits = {"Resources": {"Reservations": {"MemoryBytes": 64 << 20}}}
            return json.dump([{"Spec": {"Name": "svc-city", "TaskTemplate": limits}}]).decode()

        self.enterContext(mock.patch.object(Docker, "run", run))
        return fleet._reservations(Docker("docker", {}))

    def test_the_services_are_read_again(self) -> None:
        self.assertEqual(self.reserved(2), {"svc-city": 64})

    def test_a_service_that_stays_missing_fails_with_dockers_error(self) -> None:
        with self.assertRaisesRegex(Failed, "no such service: id2"):
            self.reserved(100)


class RemoveTests(HostCase):
    """A swarm with machines; the machine with the id own1 belongs to the host."""

    def with_machines(self, *machines: FleetMachine) -> None:
        self.removed: list[str] = []
        self.agents: list[tuple[str, str]] = []  # service and secret of each agent
        self.services: list[Any] = []
        self.is_broken = False
        self.folder_of_fleet = FleetFolder(self.folder / "fleet")

        def run(docker: Docker, *words: str, sent: bytes | None = None) -> str:
            if self.is_broken:
                fail(f"docker {words[0]} {words[1]}: the engine is away")
            if words[:2] == ("node", "rm"):
                self.removed.append(words[-1])
            if words[1] == "rm" and words[0] != "node":
                self.agents.remove((words[0], words[2]))
            listed = [name for kind, name in self.agents if words[:2] == (kind, "ls")]
            of_node = [name for name in listed if words[3] == f"label=svc.agent={name[10:]}"]
            return "\n".join(of_node)

        patches: tuple[Any, ...] = (
            mock.patch.object(fleet.shutil, "which", lambda name: "/bin/docker"),
            mock.patch.object(Docker, "swarm", lambda docker: {"NodeID": "own1"}),
            mock.patch.object(Docker, "run", run),
            mock.patch.object(fleet, "machines", lambda docker: [*machines]),
            mock.patch.object(fleet, "_services", lambda docker: self.services),
        )
        for patch in patches:
            self.enterContext(patch)
        for machine in ("own1", "other1", "other2"):
            self.folder_of_fleet.issue(
                machine, "10.0.0.2", "10.0.0.1", 61020, f"10.1.0.{machine[-1]}"
            )

    def nodes(self) -> list[str]:
        return [node.id for node in FleetFolder(self.folder / "fleet").nodes()]

    def test_machine_that_left_the_swarm_can_still_be_revoked(self) -> None:
        self.with_machines(second(id="own1"), second(id="other2"))
        self.assertIn("svcctl fleet remove other1", self.ctl("fleet", "nodes").out)
        self.assertEqual(self.ctl("fleet", "remove", "other1").status, 0)
        self.assertEqual((self.nodes(), self.removed), (["own1", "other2"], []))

    def test_machine_that_left_the_swarm_loses_its_address(self) -> None:
        self.with_machines(second(id="own1"), second(id="other1", engine_address="10.1.0.1"))
        for address in ("10.1.0.1", "10.1.0.2"):
            fleet.allow(Host(self.folder), address, allowed=True)
        self.assertEqual(self.ctl("fleet", "remove", "other2").status, 0)
        values = parse_env_file((self.folder / "metagame.env").read_text())
        self.assertEqual(values[NAME], "10.1.0.1")

    def test_removal_of_a_departed_machine_can_be_repeated(self) -> None:
        self.with_machines(second(id="own1"))
        fleet.allow(Host(self.folder), "10.1.0.2", allowed=True)
        self.agents = [
            (kind, f"svc-agent-other{n}") for kind in ("service", "secret") for n in ("2", "21")
        ]
        self.is_broken = True
        self.assertIn("the engine is away", self.ctl("fleet", "remove", "other2").err)
        self.assertNotIn("other2", self.nodes())  # the node is revoked nevertheless
        self.is_broken = False
        self.assertEqual(self.ctl("fleet", "remove", "other2").status, 0)
        values = parse_env_file((self.folder / "metagame.env").read_text())
        self.assertEqual(values[NAME], "")
        self.assertEqual({name for _, name in self.agents}, {"svc-agent-other21"})
        self.assertIn(
            "no machine has the name or id other2", self.ctl("fleet", "remove", "other2").err
        )

    def test_machine_that_left_is_revoked_before_its_address_goes(self) -> None:
        self.with_machines(second(id="own1"))
        self.agents = [("secret", "svc-agent-other2")]
        with mock.patch.object(fleet, "allow", lambda *_, **options: fail("no metagame")):
            ran = self.ctl("fleet", "remove", "other2")
        self.assertIn("GAMESERVER_ALLOW_FROM: no metagame. Remove 10.1.0.2 from", ran.err)
        self.assertNotIn("other2", self.nodes())
        self.assertEqual(self.ctl("fleet", "remove", "other2").status, 0)
        self.assertEqual(self.agents, [])

    def test_owner_of_a_removed_machine_also_deletes_the_table(self) -> None:
        self.with_machines(second(id="own1"), second())
        self.services = [service_of("svc-agent-other1", "agent:1")]
        for node, image in (("other1", "agent:1"), ("other2", "localhost/svcserver:")):
            ran = self.ctl("fleet", "remove", node)
            self.assertIn(f"--entrypoint /usr/sbin/nft {image}", ran.out)
            self.assertIn("delete table inet svc_gameports'; docker volume rm -f", ran.out)

    def test_machines_are_listed_without_the_metagame_s_settings(self) -> None:
        self.with_machines(second(id="own1"))
        (self.folder / "metagame.env").unlink()
        ran = self.ctl("fleet", "nodes")
        self.assertEqual((ran.status, ran.err), (0, ""))

    def test_name_like_the_id_of_another_machine_hides_nothing(self) -> None:
        self.with_machines(second(id="own1"), second(), second(id="other2", name="other1"))
        self.assertEqual(self.ctl("fleet", "remove", "other1").status, 0)
        self.assertEqual(self.removed, ["other1"])

    def test_address_that_two_machines_share_stays_allowed(self) -> None:
        both = second(), second(id="other2", name="third")
        self.with_machines(second(id="own1"), *both)
        fleet.allow(Host(self.folder), both[0].engine_address, allowed=True)
        self.ctl("fleet", "remove", "other1")
        values = parse_env_file((self.folder / "metagame.env").read_text())
        self.assertEqual(values[NAME], both[0].engine_address)

    def test_invite_without_an_image_names_the_cure(self) -> None:
        self.with_machines(second(id="own1"))
        self.assertIn("Run svcctl fleet init first", self.ctl("fleet", "invite").err)


def service_of(name: str, image: str, environ: Iterable[str] = (), *mounted: str) -> Any:
    """Return a service as Docker describes it."""
    entries = [{"SecretName": secret} for secret in mounted]
    container = {"Image": image, "Env": [*environ], "Secrets": entries}
    return {"Spec": {"Name": name, "TaskTemplate": {"ContainerSpec": container}}}


AGENT, HELPER = "svc-agent-other1", "svc-allowlist-other1"


class InstallTests(HostCase):
    """A machine gets an agent, and an allowlist helper if the host has one."""

    def setUp(self) -> None:
        super().setUp()
        self.services: dict[str, Any] = {}
        self.errors: list[str] = []  # of the tasks that do not run
        self.clock = Clock()
        self.created: dict[str, tuple[str, ...]] = {}
        self.secrets: dict[str, str] = {}
        self.commands: list[str] = []

        def run(docker: Docker, *words: str, sent: bytes | None = None) -> str:
            self.commands.append(" ".join(words))
            if words[:2] == ("service", "create"):
                self.created[words[words.index("--name") + 1]] = words
            if words[:2] == ("secret", "create"):
                self.secrets[words[-2]] = (sent or b"").decode()
            if words[1] == "ls" and "--filter" in words:
                return "\n".join([*self.services] if words[0] == "service" else self.mounted)
            if words[:2] == ("service", "ps"):
                return self.tasks(words[2:-3])
            return "image1"

        patches: tuple[Any, ...] = (
            mock.patch.object(fleet.shutil, "which", lambda name: "/bin/docker"),
            mock.patch.object(
                Docker, "swarm", lambda docker: {"NodeID": "own1", "NodeAddr": "10.0.0.1"}
            ),
            mock.patch.object(Docker, "run", run),
            mock.patch.object(fleet, "_services", lambda docker: [*self.services.values()]),
            mock.patch.object(fleet.time, "monotonic", self.clock.seconds),
            mock.patch.object(fleet.time, "sleep", self.clock.advance),
            mock.patch.object(fleet, "machines", lambda docker: [second(id="own1"), self.machine]),
        )
        for patch in patches:
            self.enterContext(patch)
        change(self.folder / "metagame.env", {"FLEET_PORT": "61040"})
        change(self.folder / "deploy.env", {"GAMESERVER_IMAGE": "game:1"})
        change(self.folder / "allowlist.env", {"ALLOWLIST_DRY_RUN": "0"})
        self.machine, self.mounted = second(has_agent=False), list[str]()

    def invite(self) -> Any:
        return self.ctl("fleet", "invite", "--no-wait")

    def test_helper_may_change_the_firewall_and_nothing_else(self) -> None:
        self.assertEqual(self.invite().status, 0)
        words = " ".join(self.created["svc-allowlist-other1"])
        for expected in (
            "--network host",
            "--cap-drop ALL --",
            "--cap-add NET_ADMIN --read-only",
            "--constraint node.id==other1",
            "--reserve-memory 64M --limit-memory 256M",
            "--restart-condition any",
            "--env ALLOWLIST_PORTS=8770-8777",
        ):
            self.assertIn(expected, words)
        self.assertEqual(words.count("--cap-add"), 1)

    def test_machine_leaves_the_swarm_after_its_helper_has_ended(self) -> None:
        task = fleet.SwarmTask("t1", f"{HELPER}.other1", True, "")
        results = iter([[task], [task], [task], []])
        with mock.patch.object(fleet, "_tasks", lambda docker, *words: next(results)):
            self.assertEqual(self.ctl("fleet", "remove", "other1", "--force").status, 0)
        self.assertEqual(self.clock.seconds(), 2 * fleet.POLL_S)
        self.assertIn("node rm --force other1", self.commands)

    def test_machine_whose_helper_does_not_end_is_removed_nevertheless(self) -> None:
        task = fleet.SwarmTask("t1", f"{HELPER}.other1", True, "")
        with mock.patch.object(fleet, "_tasks", lambda docker, *words: [task]):
            self.assertEqual(self.ctl("fleet", "remove", "other1", "--force").status, 0)
        self.assertEqual(self.clock.seconds(), fleet.STOP_S)
        self.assertIn("node rm --force other1", self.commands)

    def test_helper_opens_ports_soon(self) -> None:
        self.assertEqual(self.expected()["ALLOWLIST_MIN_INTERVAL_MS"], "100")
        change(self.folder / "allowlist.env", {"ALLOWLIST_MIN_INTERVAL_MS": "200"})
        self.assertEqual(self.expected()["ALLOWLIST_MIN_INTERVAL_MS"], "200")

    def test_helper_keeps_the_largest_number_of_addresses(self) -> None:
        change(self.folder / "allowlist.env", {"ALLOWLIST_MAX_ENTRIES": "10"})
        self.assertEqual(self.expected()["ALLOWLIST_MAX_ENTRIES"], "1000")

    def test_agent_and_helper_share_a_secret_that_is_not_shown(self) -> None:
        self.invite()
        name, _, secret = self.secrets["svc-allowlist-other1"].strip().partition("=")
        self.assertEqual(name, "ALLOWLIST_SECRET")
        self.assertGreater(len(secret), 40)
        self.assertNotIn(secret, " ".join(self.commands))
        for words in self.created.values():
            self.assertIn("source=svc-allowlist-other1,target=svc-allowlist,mode=0400", words)
        agent = " ".join(self.created["svc-agent-other1"])
        self.assertTrue(agent.endswith("svc-agent --env-file /run/secrets/svc-allowlist"))
        self.invite()
        self.assertNotIn(secret, self.secrets["svc-allowlist-other1"])

    def test_host_that_guards_no_port_installs_no_helper(self) -> None:
        for setting in ({"ALLOWLIST_DRY_RUN": "1"}, {"ALLOWLIST_BACKEND": "none"}):
            change(self.folder / "allowlist.env", {"ALLOWLIST_DRY_RUN": "0", **setting})
            self.assertEqual(self.invite().status, 0)
        (self.folder / "allowlist.env").unlink()
        self.assertEqual(self.invite().status, 0)
        self.assertEqual({*self.created}, {*self.secrets}, {"svc-agent-other1"})
        self.assertNotIn("svc-allowlist", " ".join(self.created["svc-agent-other1"]))

    def tasks(self, names: tuple[str, ...]) -> str:
        """Return the lines of tasks that run, or that fail after a second."""
        if not self.errors:
            return "\n".join(f"{name}\t{name}.1\tRunning Running 1 second ago\t" for name in names)
        number = int(self.clock.seconds() // 5)  # the swarm starts another one
        failed = [("Shutdown Rejected", error) for error in self.errors if number]
        tasks = [("Running Preparing", ""), *failed]
        return "\n".join(f"{number}\t{names[0]}.1\t{state}\t{error}" for state, error in tasks)

    def with_services(self, agent: Iterable[str] = (), helper: Iterable[str] | None = None) -> None:
        """Let the machine have an agent and a helper with these environments."""
        self.machine = second()
        self.mounted = [] if helper is None else [HELPER]
        self.services = {AGENT: service_of(AGENT, "agent:1", agent, AGENT, *self.mounted)}
        if helper is not None:
            self.services[HELPER] = service_of(HELPER, "agent:1", helper, HELPER)

    def changes(self) -> list[str]:
        words = "service rm", "service create", "service update", "service rollback", "secret"
        commands = [line for line in self.commands if line.startswith(words) and " ls " not in line]
        self.commands.clear()
        return commands

    def test_only_the_helper_restarts_for_a_changed_setting(self) -> None:
        settings = self.expected() | {"ALLOWLIST_PORTS": "1-2", "LOG_LEVEL": "debug"}
        self.with_services([], [f"{name}={value}" for name, value in settings.items()])
        self.assertIn("second (10.0.0.1) is updated.", self.invite().out)
        added = "--env-add ALLOWLIST_PORTS=8770-8777"
        self.assertEqual(self.changes(), [f"service update --detach --quiet {added} {HELPER}"])
        self.assertGreaterEqual(self.clock.seconds(), fleet.SETTLED_S)

    def test_machine_that_starts_no_task_is_named_and_left_alone(self) -> None:
        for has_agent in (True, False):
            for changes in ({"availability": "pause"}, {"state": "down"}):
                self.with_services([], ["ALLOWLIST_PORTS=1-2"])
                self.machine = second(has_agent=has_agent, **changes)
                self.assertIn(f"second is {self.machine.status}. Run", self.invite().out)
                self.assertEqual(self.changes(), [])

    def test_agent_gets_a_new_image_if_the_owner_names_an_image(self) -> None:
        self.with_services([], [f"{name}={value}" for name, value in self.expected().items()])
        self.assertEqual((self.invite().status, self.changes()), (0, []))
        self.ctl("fleet", "invite", "--no-wait", "--agent-image", "agent:2")
        update = "service update --detach --quiet --no-resolve-image --image agent:2"
        self.assertEqual(self.changes(), [f"{update} {AGENT}", f"{update} {HELPER}"])

    def test_missing_image_is_named_and_the_service_rolled_back(self) -> None:
        self.with_services([], ["ALLOWLIST_PORTS=1-2"])
        self.errors = ['"No such image: agent:2"']
        ran = self.ctl("fleet", "invite", "--no-wait", "--agent-image", "agent:2")
        self.assertEqual(ran.status, 1)
        self.assertIn("Copy the image there: docker save agent:2 | ssh", ran.err)
        self.assertLess(self.clock.seconds(), fleet.START_S / 2)
        [update, rollback] = self.changes()
        self.assertTrue(update.endswith(AGENT))
        self.assertEqual(rollback, f"service rollback --detach --quiet {AGENT}")

    def test_new_agent_that_does_not_run_fails(self) -> None:
        self.errors = ["task: non-zero exit (1)"]
        ran = self.invite()
        self.assertEqual(ran.status, 1)
        self.assertIn("second: svc-agent-other1.1: task: non-zero exit (1). See docker", ran.err)

    def test_first_helper_starts_when_the_agent_has_its_secret(self) -> None:
        self.with_services(["LOG_LEVEL=debug"])
        self.assertEqual(self.invite().status, 0)
        secret, update, create = self.changes()
        self.assertEqual(secret, f"secret create --label svc.agent=other1 {HELPER} -")
        mounted = f"--secret-add source={HELPER},target=svc-allowlist,mode=0400"
        command = "--nodaemon --pidfile= svc-agent --env-file /run/secrets/svc-allowlist"
        expected = f"service update --detach --quiet {mounted} --args {command} {AGENT}"
        self.assertEqual(update, expected)
        self.assertIn(f"--name {HELPER} ", create)
        self.assertIn(" agent:1 -c ", create)

    def test_machine_with_the_settings_of_the_host_is_left_alone(self) -> None:
        settings = [f"{name}={value}" for name, value in self.expected().items()]
        self.with_services([], ["X=1", *settings])
        self.assertEqual((self.invite().status, self.changes()), (0, []))
        self.with_services(["ALLOWLIST_SECRET=of-the-owner"])
        self.assertEqual((self.invite().status, self.changes()), (0, []))

    def test_helper_that_the_host_no_longer_uses_is_removed(self) -> None:
        self.with_services([], ["ALLOWLIST_PORTS=1-2"])
        change(self.folder / "allowlist.env", {"ALLOWLIST_DRY_RUN": "1"})
        self.invite()
        update = f"--secret-rm {HELPER} --args --nodaemon --pidfile= svc-agent {AGENT}"
        self.assertEqual(
            self.changes(),
            [
                f"service update --detach --quiet {update}",
                f"service rm {HELPER}",
                f"secret rm {HELPER}",
            ],
        )

    def test_machine_with_an_old_docker_is_named(self) -> None:
        self.machine = second(has_agent=False, version="19.03.15")
        line = "second has only Docker version 19.03.15. Install Docker 20.10 or later on second."
        self.assertIn(line, self.invite().err)
        self.assertEqual((self.created, self.secrets), ({}, {}))

    def expected(self) -> dict[str, str]:
        return fleet.helper_settings(Host(self.folder))


class AllowTests(HostCase):
    def test_without_a_metagame_the_file_has_the_address(self) -> None:
        host = Host(self.folder)
        for address in ("10.0.0.2", "10.0.0.3", "10.0.0.2"):
            fleet.allow(host, address, allowed=True)
        fleet.allow(host, "10.0.0.3", allowed=False)
        values = parse_env_file((self.folder / "metagame.env").read_text())
        self.assertEqual(values[NAME], "10.0.0.2")

    def test_gateway_of_another_host_at_the_port_is_named(self) -> None:
        forbidden = 403, b'{"error": "forbidden"}'
        self.enterContext(mock.patch.object(as_owner, "_exchange", lambda *_: forbidden))
        with self.assertRaisesRegex(Failed, "403 .*: another program uses port"):
            fleet.allow(Host(self.folder), "10.0.0.2", allowed=True)

    def test_running_metagame_applies_the_address_at_once(self) -> None:
        settings = {"settings": [{"name": NAME, "value": "10.0.0.1"}]}
        posts: list[Any] = []
        with (
            mock.patch.object(Owner, "get", lambda *_: {"sections": [settings]}),
            mock.patch.object(Owner, "post", lambda _, *sent: posts.append(sent)),
        ):
            fleet.allow(Host(self.folder), "10.0.0.2", allowed=True)
            fleet.allow(Host(self.folder), "10.0.0.9", allowed=False)
        self.assertEqual(
            posts, [("DashboardSetting", {"Name": NAME, "Value": "10.0.0.1,10.0.0.2"})]
        )
