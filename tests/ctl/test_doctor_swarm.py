"""``svcctl doctor`` on a host whose game servers run in a Docker Swarm."""

from __future__ import annotations

from typing import Any
from unittest import mock

from svcserver.ctl import fleet
from svcserver.ctl.as_owner import Owner
from svcserver.ctl.doctor import swarm
from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.fleet import Docker, FleetMachine
from svcserver.ctl.output import Failed
from svcserver.kernel.envfile import change
from svcserver.metagame.owner.maintenance.wire import HELPER_FAILS
from tests.ctl.test_accounts import HostCase

OWN = FleetMachine(
    "own1", "first", "10.0.0.1", "10.0.0.1", "ready", "active", "20.10.24", 4.0, 8000, 0, 0, False
)

REPORT = {"id": "other1", "agent": "connected", "gamePorts": "reachable"}
UNCHECKED = "UDP 7946 and 4789 between the machines cannot be checked from here"


def second(**changes: Any) -> FleetMachine:
    fields = {"id": "other1", "name": "second", "has_agent": True, **changes}
    return FleetMachine(**{**{name: getattr(OWN, name) for name in FIELDS}, **fields})


FIELDS = [field.name for field in FleetMachine.__attrs_attrs__]


class SwarmTests(HostCase):
    def findings(
        self,
        *machines: FleetMachine,
        error: str = "",
        reachable: bool = True,
        swarm_of: Any = lambda docker: {"NodeID": "own1"},
        unguarded: frozenset[str] | None = frozenset(),
        **report: Any,
    ) -> list[str]:
        change(
            self.folder / "deploy.env",
            {"GAMESERVER_ENGINE": "swarm", "GAMESERVER_IMAGE": "game:1"},
        )

        def run(docker: Docker, *words: str, sent: bytes | None = None) -> str:
            return error

        patches: tuple[Any, ...] = (
            mock.patch.object(fleet.shutil, "which", lambda name: "/bin/docker"),
            mock.patch.object(Docker, "swarm", swarm_of),
            mock.patch.object(Docker, "run", run),
            mock.patch.object(swarm, "machines_of", lambda docker: [OWN, *machines]),
            mock.patch.object(
                swarm,
                "unguarded",
                fleet.unguarded if unguarded is None else lambda host, docker: unguarded,
            ),
            mock.patch.object(Machine, "connects", lambda _, host, port: reachable or port == 2377),
            mock.patch.object(Owner, "get", lambda *_: {"machines": [{**REPORT, **report}]}),
        )
        for patch in patches:
            self.enterContext(patch)
        findings = self.ctl("doctor", "--json").data["findings"]
        texts = [finding["what"] for finding in findings if finding["component"] == "fleet"]
        return [what for what in texts if what != UNCHECKED]

    def test_fleet_in_order_has_no_finding(self) -> None:
        self.assertEqual(self.findings(second()), [])

    def test_only_machine_names_the_commands_for_a_datagram(self) -> None:
        change(
            self.folder / "deploy.env",
            {"PORT_RANGE_BEGIN": "8770", "PORT_RANGE_END": "8779", "MY_IP": "203.0.113.9"},
        )
        self.assertEqual(self.findings(), ["the game ports of this machine were not tried"])
        [finding] = [
            finding
            for finding in self.ctl("doctor", "--json").data["findings"]
            if finding["component"] == "fleet"
        ]
        self.assertIn("> /dev/udp/203.0.113.9/8770'", finding["cure"])

    def test_machine_that_is_down_is_findings(self) -> None:
        self.assertEqual(self.findings(second(state="down")), ["second is down"])

    def test_machine_without_an_agent_or_port_is_findings(self) -> None:
        findings = self.findings(second(has_agent=False), reachable=False)
        self.assertIn("second has no agent", findings[0])
        self.assertIn("port 7946 of second", findings[1])

    def test_different_version_is_noted(self) -> None:
        [finding] = self.findings(second(version="28.0.0"))
        self.assertEqual(finding, "second has Docker 28.0.0, and this machine 20.10.24")

    def test_missing_image_is_findings(self) -> None:
        gone = 'a\tsvc-city.1\tShutdown Rejected 1 second ago\t"No such image: game:1"\n'
        agent = "b\tsvc-agent-other1.1\tShutdown Rejected 1 second ago\tNo such image: agent:2"
        findings = self.findings(second(), error=gone + agent)
        expected = [f"second has no image {image}" for image in ("agent:2", "game:1")]
        self.assertEqual(findings[-2:], expected)

    def test_error_of_another_machine_enters_no_command(self) -> None:
        line = "a\tsvc-city.1\tShutdown Rejected 1 second ago\tNo such image: "
        for image in ("$(id)", "--output=/etc/passwd", "`id`", ";id"):
            self.assertEqual(self.findings(second(), error=line + image), [])

    def test_image_that_came_later_is_no_findings(self) -> None:
        error = "b\tsvc-city.1\tRunning Running 1 second ago\t\n"
        error += "a\tsvc-city.1\tShutdown Rejected 9 seconds ago\tNo such image: game:1"
        self.assertEqual(self.findings(second(), error=error), [])

    def test_bad_allowlist_file_does_not_hide_other_findings(self) -> None:
        (self.folder / "allowlist.env").write_text("ALLOWLIST_DRY_RUN=0\n")
        self.assertEqual(self.findings(second(state="down"), unguarded=None), ["second is down"])

    def test_an_agents_clock_image_and_ports_become_findings(self) -> None:
        report = {"clockSeconds": -3.21, "hasImage": False, "gamePorts": "not reachable"}
        self.assertEqual(
            self.findings(second(), **report),
            [
                "the clock of second is 3.2 s behind this machine's",
                "the game ports of second at 10.0.0.1 are not reachable",
                "second has no image game:1",
            ],
        )

    def test_helper_that_is_missing_or_fails_is_findings(self) -> None:
        [missing] = self.findings(second(), unguarded=frozenset(("other1",)))
        self.assertIn("helper of second is missing or has other", missing)
        [fails] = self.findings(second(), gamePorts=HELPER_FAILS)
        self.assertEqual(fails, "the allowlist helper of second does not work")

    def test_agent_that_is_away_is_findings(self) -> None:
        findings = self.findings(second(), agent="away")
        self.assertEqual(findings, ["the agent of second is not connected"])

    def test_ports_that_were_not_tried_are_noted(self) -> None:
        [finding] = self.findings(second(), gamePorts="not tried: its agent is away")
        self.assertIn("were not tried: its agent is away", finding)

    def test_machine_that_manages_no_swarm_is_findings(self) -> None:
        def refuse(docker: Docker) -> Any:
            raise Failed("This machine is not a manager of a swarm. Run svcctl fleet init first.")

        [finding] = self.findings(swarm_of=refuse)
        self.assertEqual(finding, "This machine is not a manager of a swarm")
