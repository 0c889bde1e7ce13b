"""The checks of the machines that run game servers in a Docker Swarm."""

from collections.abc import Iterator, Mapping
from typing import Any

from svcserver.ctl.as_owner import owner_of
from svcserver.ctl.doctor.case import Case, Finding
from svcserver.ctl.fleet import Docker, FleetMachine, missing_images, unguarded
from svcserver.ctl.fleet import machines as machines_of
from svcserver.ctl.output import Failed
from svcserver.deploy.settings import DeploySettings
from svcserver.metagame.owner.maintenance.wire import HELPER_FAILS

MANAGER_PORT = 2377  # on which machines join and get their tasks
GOSSIP_PORT = 7946  # on which the engines of a swarm find each other
OPEN_PORTS = "open TCP 2377, TCP and UDP 7946, and UDP 4789 between the machines"
MOST_AHEAD_S = 2.0
Report = Mapping[str, Any]


def fleet(case: Case) -> Iterator[Finding]:
    """Check the swarm, the image, and each machine."""
    if case.deploy is None or case.deploy.engine != "swarm":
        return
    try:
        docker = Docker.from_deploy_settings(case.host)
        swarm = docker.swarm()
        own = str(swarm["NodeID"])
        machines = machines_of(docker)
        docker.run("image", "inspect", "--format", "{{.Id}}", case.deploy.image)
        changed = _unguarded(case, docker)
        missing = {machine.id: missing_images(docker, machine.id) for machine in machines}
    except Failed as error:
        yield Finding.from_message("fleet", error.message, "run svcctl fleet init")
        return
    reports: dict[str, Report] = {}
    if len(machines) > 1:
        try:
            listed = owner_of(case.host).get("DashboardMachines")["machines"]
            reports = {str(entry["id"]): entry for entry in listed}
        except (Failed, KeyError, TypeError):
            what = "clocks, images and game ports of the machines were not checked"
            yield Finding.note("fleet", what, "start the host, and run this command again")
        yield Finding.note(
            "fleet",
            "UDP 7946 and 4789 between the machines cannot be checked from here",
            "open them in the firewalls of all machines",
        )
        address = str(swarm.get("NodeAddr", ""))
        if not case.machine.connects(address, MANAGER_PORT):
            what = f"port {MANAGER_PORT} of this machine cannot be reached at {address}"
            yield Finding("fleet", what, OPEN_PORTS)
    elif case.deploy.has_ports:
        yield _untried(case.deploy, machines)
    expected = next((machine.version for machine in machines if machine.id == own), "")
    for machine in machines:
        report = reports.get(machine.id, {})
        yield from _machine(case, machine, machine.id == own, expected)
        yield from _reported(machine, report)
        if machine.id in changed and machine.state == "ready":
            what = f"the allowlist helper of {machine.name} is missing or has other settings"
            yield Finding("fleet", what, "run svcctl fleet invite --no-wait")
        if report.get("hasImage") is False:
            missing[machine.id].add(case.deploy.image)
        yield from _images(machine, missing[machine.id])


def _unguarded(case: Case, docker: Docker) -> set[str]:
    """Return the result of ``unguarded``; empty if ``allowlist.env`` is invalid.

    Another check, ``settings``, reports an invalid ``allowlist.env``.
    """
    is_bad = case.allowlist is None and case.file("allowlist").is_file()
    return set() if is_bad else unguarded(case.host, docker)


def _images(machine: FleetMachine, missing: set[str]) -> Iterator[Finding]:
    for image in sorted(missing):
        what = f"{machine.name} has no image {image}"
        cure = f"docker save {image} | ssh {machine.engine_address} docker load"
        yield Finding("fleet", what, cure)


def _untried(deploy: DeploySettings, machines: list[FleetMachine]) -> Finding:
    """Return a finding that says how to test the game ports from another machine by hand.

    If the swarm has only one machine, no other machine can send the test datagram.
    """
    own = next((machine for machine in machines if machine.address != machine.engine_address), None)
    address = own.address if own else deploy.my_ip or machines[0].address
    port = deploy.first_port  # hunts use the highest first
    return Finding.note(
        "fleet",
        "the game ports of this machine were not tried",
        f"run here: socat -u UDP-RECV:{port} - and on a PC elsewhere: bash -c 'echo reached > "
        f"/dev/udp/{address}/{port}' (the word appears here if datagrams reach this machine)",
    )


def _machine(case: Case, machine: FleetMachine, is_own: bool, version: str) -> Iterator[Finding]:
    if machine.state != "ready":
        cure = f"start Docker there, and {OPEN_PORTS}"
        yield Finding("fleet", f"{machine.name} is {machine.state}", cure)
        return
    if machine.version != version:
        what = f"{machine.name} has Docker {machine.version}, and this machine {version}"
        yield Finding.note("fleet", what, "install the same version on all machines")
    if is_own:
        return
    if not machine.has_agent:
        what = f"{machine.name} has no agent, so that its game servers cannot reach the metagame"
        yield Finding("fleet", what, "run svcctl fleet invite")
    if not case.machine.connects(machine.engine_address, GOSSIP_PORT):
        what = f"port {GOSSIP_PORT} of {machine.name} cannot be reached"
        yield Finding("fleet", what, OPEN_PORTS)


def _reported(machine: FleetMachine, report: Report) -> Iterator[Finding]:
    """Yield findings about what the machine's agent reports."""
    if machine.state != "ready" or not report:
        return
    if report.get("agent") == "away" and machine.has_agent:
        what = f"the agent of {machine.name} is not connected"
        cure = f"see docker service logs svc-agent-{machine.id}, and open FLEET_PORT"
        yield Finding("fleet", what, cure)
        return
    ahead = report.get("clockSeconds")
    if ahead is not None and abs(ahead) > MOST_AHEAD_S:
        word = "ahead of" if ahead > 0 else "behind"
        what = f"the clock of {machine.name} is {abs(ahead):.1f} s {word} this machine's"
        yield Finding("fleet", what, "set it by NTP there: timedatectl set-ntp true")
    ports = str(report.get("gamePorts", ""))
    what = f"the game ports of {machine.name} at {machine.address} are {ports}"
    if ports == HELPER_FAILS:
        what = f"the allowlist helper of {machine.name} does not work"
        yield Finding("fleet", what, f"see docker service logs svc-allowlist-{machine.id}")
    elif ports == "not reachable":
        yield Finding("fleet", what, "open the UDP game ports there, or correct svc.address")
    elif ports != "reachable":
        what = f"the game ports of {machine.name} were {ports}"
        yield Finding.note("fleet", what, "test the ports with a player's game")
