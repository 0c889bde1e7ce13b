"""The checks of the machines that run game servers in a Docker Swarm."""

from __future__ import annotations

from collections.abc import Iterator

from svcserver.ctl.doctor.case import Case, Finding
from svcserver.ctl.fleet import Docker, FleetMachine, missing_image
from svcserver.ctl.fleet import machines as machines_of
from svcserver.ctl.output import Failed

GOSSIP_PORT = 7946  # on which the engines of a swarm find each other
OPEN_PORTS = "open TCP 2377, TCP and UDP 7946, and UDP 4789 between the machines"


def fleet(case: Case) -> Iterator[Finding]:
    """Check the swarm, the image, and each machine."""
    if case.deploy is None or case.deploy.engine != "swarm":
        return
    try:
        docker = Docker.of(case.host)
        own = str(docker.swarm()["NodeID"])
        machines = machines_of(docker)
        docker.run("image", "inspect", "--format", "{{.Id}}", case.deploy.image)
        without_image = {machine.id for machine in machines if missing_image(docker, machine.id)}
    except Failed as error:
        yield Finding.of("fleet", error.message, "run svcctl fleet init")
        return
    expected = next((machine.version for machine in machines if machine.id == own), "")
    for machine in machines:
        yield from _machine(case, machine, machine.id == own, expected)
        if machine.id in without_image:
            what = f"{machine.name} has no image {case.deploy.image}"
            yield Finding("fleet", what, "copy it there with docker save and docker load")


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
