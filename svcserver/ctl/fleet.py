"""The commands ``svcctl fleet``, which manage a Docker Swarm of machines for game servers.

These commands run ``docker``, which must reach the Docker engine that the deploy server uses.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from typing import IO, Any

import click
from attrs import asdict, field, frozen

from svcserver.allowlist.settings import AllowlistSettings
from svcserver.ctl.as_owner import NobodyListens, owner_of
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Failed, Out, fail
from svcserver.deploy.docker_api import OLDEST
from svcserver.deploy.settings import TCP, DeploySettings
from svcserver.deploy.swarm import ADDRESS, DRAIN
from svcserver.edge.nodes import FOLDER, BadFleet, FleetFolder
from svcserver.kernel import json
from svcserver.kernel.envfile import change
from svcserver.kernel.system import epoch
from svcserver.metagame.settings import MetagameSettings
from svcserver.stack.alerts.watching import installed_version

CALL_S = 60.0
INVITE_S = 600.0  # a new machine joins within this time
POLL_S = 1.0
STOP_S = 15.0  # Docker kills a container that has not ended ten seconds after the order to stop
START_S = 30.0  # an agent or helper must have started within this time
SETTLED_S = 5.0  # a service has started when it has run for this time without a restart
FLEET_PORT = 61040  # a port that svcctl init does not use
IMAGE = "svc-game"
GAME_FOLDER = "/srv/game"
ENTRY_POINT = "gameserver-entrypoint.sh"
AGENT, HELPER = "svc-agent-", "svc-allowlist-"  # a machine's services and secrets: name prefixes
NODE_LABEL = "svc.agent"  # the label of these services and secrets; its value is the machine's id
AGENT_IMAGE = "localhost/svcserver"
TWISTD = "/usr/lib/svcserver/bin/twistd"  # in AGENT_IMAGE, whose entry point starts a whole host
ENGINE = "/var/run/docker.sock"  # the Docker engine's socket on each machine
NO_IMAGE = re.compile(r"No such image: (\w[\w.:/@-]*)")  # the error of a task
HELPER_DATA = "svc-allowlist"  # the volume that a new helper reads
HELPER_FOLDER = f"/var/lib/{HELPER_DATA}"
HELPER_FILE = "/run/secrets/svc-allowlist"
SECRET = "ALLOWLIST_SECRET"  # noqa: S105 - the name of the variable
AGENT_COMMAND = ["--nodaemon", "--pidfile=", "svc-agent"]
# A helper that ends leaves the ports closed for everybody. If the swarm stops the helper's service,
# this command opens the ports again, because the machine's owner may use them for something else.
TABLE = "table inet svc_gameports"
GUARD = (
    f"trap 'kill $!; wait $!; exec /usr/sbin/nft delete {TABLE}' TERM; "
    f"{TWISTD} --nodaemon --pidfile= svc-allowlist --env-file {HELPER_FILE} & wait $!"
)
ALLOW_FROM = "GAMESERVER_ALLOW_FROM"
OLDEST_DOCKER = (20, 10)
ATTEMPTS = 5  # to read all services while hunts end
MB = 1024 * 1024
WINE = """\
RUN apt-get update && apt-get install -y --no-install-recommends wine wine64 \\
 && rm -rf /var/lib/apt/lists/*
ENV WINEPREFIX=/srv/wine WINEDEBUG=-all
RUN wineboot --init && wineserver --wait
"""


@frozen
class FleetMachine:
    """A machine of the swarm, as ``svcctl fleet nodes`` shows it."""

    id: str
    name: str
    address: str  # to which players connect
    engine_address: str
    state: str
    availability: str
    version: str
    cores: float
    memory_mb: int
    reserved_mb: int
    hunts: int
    has_agent: bool

    @property
    def status(self) -> str:
        """The state of the machine, in one word."""
        if self.state != "ready":
            return self.state
        return {"active": "ready", "pause": "draining"}.get(self.availability, "drained")


@frozen
class Docker:
    """The program ``docker``, which talks to the engine that the deploy server uses."""

    program: str
    environ: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_deploy_settings(cls, host: Host) -> Docker:
        settings, program = host.settings("deploy", DeploySettings), shutil.which("docker")
        if program is None:
            fail("docker is not installed. Install docker, for example with apt install docker.io.")
        if not settings.docker.startswith(TCP):
            return cls(program, {**os.environ, "DOCKER_HOST": f"unix://{settings.docker}"})
        tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": settings.docker_certificates}
        return cls(program, {**os.environ, "DOCKER_HOST": settings.docker, **tls})

    def run(self, *words: str, sent: bytes | None = None) -> str:
        """Return what a ``docker`` command prints; raises Failed with the command's error."""
        try:
            done = subprocess.run(
                [self.program, *words],
                env=self.environ,
                input=sent,
                stdin=subprocess.DEVNULL if sent is None else None,
                capture_output=True,
                timeout=CALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            fail(
                f"docker {words[0]} did not end within {CALL_S:.0f} s. Check that the container"
                " engine is running."
            )
        if done.returncode:
            fail(f"docker {words[0]} {words[1]}: {_last_line(done.stderr)}")
        return done.stdout.decode(errors="replace")

    def run_for_json(self, *words: str) -> Any:
        """Return the parsed JSON that a ``docker`` command prints."""
        try:
            return json.parse(self.run(*words).encode())
        except json.BadJson:
            fail(f"docker {words[0]} did not print JSON. Install a newer version of docker.")

    def swarm(self) -> dict[str, Any]:
        """Return Docker's data about the swarm.

        Raises Failed if this machine is not a manager of a swarm.
        """
        swarm: dict[str, Any] = self.run_for_json("info", "--format", "{{json .Swarm}}")
        if swarm.get("LocalNodeState") == "active" and not swarm.get("ControlAvailable"):
            fail(
                "This machine is not a manager of its swarm, but a worker. On a manager of the"
                " swarm, run docker node promote with the name of this machine."
            )
        if not swarm.get("ControlAvailable"):
            fail("This machine is not a manager of a swarm. Run svcctl fleet init first.")
        return swarm


@click.group()
def fleet() -> None:
    """Run game servers on several machines with Docker Swarm."""


@host_command(fleet, "init", reason=True)
@click.option("--program", type=click.Path(exists=True, file_okay=False, path_type=Path),
              required=True, metavar="DIR", help="The folder with the game server.")  # fmt: skip
@click.option("--binary", required=True, metavar="FILE", help="The program in this folder.")
@click.option("--address", default="", metavar="IP",
              help="This machine's address for the other machines.")  # fmt: skip
@click.option("--base", default="debian:12-slim", show_default=True, metavar="IMAGE",
              help="The image to build on.")  # fmt: skip
def init(
    host: Host, out: Out, program: Path, binary: str, address: str, base: str, reason: str
) -> None:
    """Create a swarm and the image of the game server.

    After its next start, the deploy server uses the swarm and the image.
    """
    home = host.need_folder("deploy.env")
    windows = _is_windows(program, binary)
    docker = Docker.from_deploy_settings(host)
    _check_version(docker.run("version", "--format", "{{.Server.APIVersion}}").strip())
    with noted(host, "fleet init", reason=reason) as trace:
        state = docker.run_for_json("info", "--format", "{{json .Swarm}}")
        if state.get("LocalNodeState") == "inactive":
            where = ["--advertise-addr", address] if address else []
            docker.run("swarm", "init", *where)
        swarm = docker.swarm()
        image = f"{IMAGE}:{int(epoch())}"
        _build(docker, image, dockerfile(base, windows=windows), program)
        try:
            FleetFolder(home / FOLDER).prepare()
        except BadFleet as error:
            fail(str(error))
        change(home / "deploy.env", {
            "GAMESERVER_ENGINE": "swarm",
            "GAMESERVER_IMAGE": image,
            "GAMESERVER_BINARY_PATH": f"{GAME_FOLDER}/{binary}",
            "GAMESERVER_LAUNCHER": "wine" if windows else "",
        })  # fmt: skip
        if host.settings("metagame", MetagameSettings).fleet_port is None:
            change(home / "metagame.env", {"FLEET_PORT": str(FLEET_PORT)})
        trace.after = {"image": image}
    out.data({"image": image, "windows": windows})
    out.text(f"The image {image} is built, and this machine is a manager of the swarm.")
    if any(machine.id != swarm["NodeID"] for machine in machines(docker)):
        out.text(f"Copy it to each machine: {_copying(image)}")
    out.text("To use it, run svcctl restart --rolling. To add a machine, run svcctl fleet invite.")


def _is_windows(program: Path, binary: str) -> bool:
    """Return whether the game server is a Windows program; raises Failed if the file is missing."""
    path = (program / binary).resolve()
    if not path.is_relative_to(program.resolve()) or not path.is_file():
        fail(
            f"the folder {program} has no file {binary}. Set --binary to the path of the"
            " game server inside the folder."
        )
    with path.open("rb") as file:
        return file.read(2) == b"MZ"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _check_version(version: str) -> None:
    if _numbers(version) < OLDEST:
        fail(
            f"The Docker engine supports only API version {version}. Install Docker 20.10 or later."
        )


def dockerfile(base: str, *, windows: bool) -> str:
    """Return the Dockerfile of a game-server image."""
    return (
        f"FROM {base}\n{WINE if windows else ''}"
        f"COPY {ENTRY_POINT} /srv/\nCOPY game {GAME_FOLDER}\n"
        f'ENTRYPOINT ["/bin/sh", "/srv/{ENTRY_POINT}"]\n'
    )


def _build(docker: Docker, image: str, recipe: str, program: Path) -> None:
    command = [docker.program, "build", "--quiet", "--tag", image, "-"]
    with (
        TemporaryFile() as errors,
        Popen(command, env=docker.environ, stdin=PIPE, stdout=DEVNULL, stderr=errors) as build,
    ):
        if build.stdin is not None:
            with suppress(BrokenPipeError), build.stdin as target:  # docker's error says more
                write_context(target, recipe, program)
        if build.wait():
            errors.seek(0)
            fail(f"docker build: {_last_line(errors.read())}")


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it failed"


def write_context(target: IO[bytes], recipe: str, program: Path) -> None:
    """Write the files of an image as a tar archive."""
    with tarfile.open(fileobj=target, mode="w|") as archive:
        for name, content in (
            ("Dockerfile", recipe.encode()),
            (ENTRY_POINT, files("svcserver.deploy").joinpath("data", ENTRY_POINT).read_bytes()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        archive.add(program, "game")


@host_command(fleet, "invite", reason=True)
@click.option("--wait/--no-wait", default=True, show_default=True,
              help="Wait until the machine has joined, and install its agent.")  # fmt: skip
@click.option("--agent-image", default="", metavar="IMAGE",
              help="Image of all agents. Default: new agents get this version's image, others "
                   "keep theirs.")  # fmt: skip
def invite(host: Host, out: Out, wait: bool, agent_image: str, reason: str) -> None:
    """Print the command that adds a machine.

    svcctl then waits until the machine has joined, unless you give --no-wait. It also sends the
    host's allowlist settings to all machines. With --agent-image, it gives them this image.
    """
    docker = Docker.from_deploy_settings(host)
    swarm = docker.swarm()
    image = host.settings("deploy", DeploySettings).image
    if not image:
        fail("GAMESERVER_IMAGE is not set in deploy.env. Run svcctl fleet init first.")
    image_of_all, agent_image = agent_image, agent_image or _agent_image()
    _check_images(docker, image, agent_image)
    token = docker.run("swarm", "join-token", "--quiet", "worker").strip()
    command = f"docker swarm join --token {token} {_manager(swarm)}"
    out.data({"command": command, "image": image})
    out.text(
        "Copy the images to the new machine, where Docker 20.10 or later runs:",
        "",
        f"    {_copying(image, agent_image)}",
        "",
        "Then run there:",
        "",
        f"    {command}",
        "",
    )
    with noted(host, "fleet invite", reason=reason) as trace:
        changed = unguarded(host, docker)
        if image_of_all:
            changed |= _with_other_image(docker, image_of_all)
        for machine in machines(docker):
            lacks = machine.id in changed or not machine.has_agent
            if lacks and machine.status != "ready" and machine.id != swarm["NodeID"]:
                out.text(f"{machine.name} is {machine.status}. Run this again when it is ready.")
        workers = _workers(docker, swarm)
        earlier = [machine for machine in workers if machine.id in changed and machine.has_agent]
        for machine in earlier:
            update_agent(host, docker, machine, image_of_all)
            out.text(f"{machine.name} ({machine.address}) is updated.")
        deadline = time.monotonic() + (INVITE_S if wait else 0)
        new = _without_agent(docker, swarm)
        while not new and time.monotonic() < deadline:
            time.sleep(POLL_S)
            new = _without_agent(docker, swarm)
        for machine in new:
            install_agent(host, docker, machine, agent_image)
            out.text(f"{machine.name} ({machine.address}) has joined.")
        trace.after = {"machines": [machine.id for machine in (*earlier, *new)]}


def _agent_image() -> str:
    return f"{AGENT_IMAGE}:{installed_version()}"


def _copying(*images: str) -> str:
    """Return the command that copies images to another machine."""
    return f"docker save {' '.join(images)} | ssh -C MACHINE docker load"


def _check_images(docker: Docker, image: str, agent_image: str) -> None:
    """Raise Failed if Docker lacks one of the images that a new machine needs."""
    archive = f"svcserver-{installed_version()}-image.tar"
    cures = {
        image: "Build the image: svcctl fleet init",
        agent_image: f"Download {archive} from the release. Then load the image: docker load -i "
        f"{archive}",
    }
    for name, cure in cures.items():
        if not docker.run("image", "ls", "--quiet", name).strip():
            fail(f"Docker has no image {name}. {cure}")


def _without_agent(docker: Docker, swarm: Mapping[str, Any]) -> list[FleetMachine]:
    """Return the machines that have joined, but have no agent yet."""
    return [machine for machine in _workers(docker, swarm) if not machine.has_agent]


def _workers(docker: Docker, swarm: Mapping[str, Any]) -> list[FleetMachine]:
    """Return the ready machines, except for the host's own machine, which needs no agent."""
    return [
        machine
        for machine in machines(docker)
        if machine.status == "ready" and machine.id != swarm["NodeID"]
    ]


def helper_settings(host: Host) -> dict[str, str]:
    """Return the settings of the allowlist helper on each of a fleet's machines.

    The result is empty if the host's own helper does not change the firewall.
    """
    if host.folder is None or not (host.folder / "allowlist.env").is_file():
        return {}
    settings = host.settings("allowlist", AllowlistSettings)
    if settings.dry_run or settings.backend == "none":
        return {}
    interval = "ALLOWLIST_MIN_INTERVAL_MS"
    return {
        "ALLOWLIST_DRY_RUN": "0",
        "ALLOWLIST_PORTS": str(settings.ports),
        "ALLOWLIST_TTL_SECONDS": str(settings.ttl_s),
        interval: host.variables("allowlist").get(interval) or "100",
        "ALLOWLIST_MAX_ENTRIES": "1000",  # the maximum; an agent keeps addresses for hours
        "ALLOWLIST_ALLOW_PRIVATE": str(int(settings.allow_private)),
        "ALLOWLIST_AUDIT_LOG": f"{HELPER_FOLDER}/audit.log",
        "ALLOWLIST_STATE_FILE": f"{HELPER_FOLDER}/state.json",
    }


def unguarded(host: Host, docker: Docker) -> set[str]:
    """Return the ids of machines whose allowlist helper does not match ``helper_settings``.

    Machines whose agent has its own ``ALLOWLIST_SECRET`` are left out, because the owner runs the
    helper there.
    """
    expected, services = helper_settings(host), _containers(docker)

    def is_right(node: str) -> bool:
        helper = _environ(services.get(f"{HELPER}{node}", {}))
        return expected.items() <= helper.items() if expected else not helper

    return {
        node
        for name, container in services.items()
        if name.startswith(AGENT) and SECRET not in _environ(container)
        if not is_right(node := name.removeprefix(AGENT))
    }


def _with_other_image(docker: Docker, image: str) -> set[str]:
    """Return the ids of machines whose agent or helper has a different image than ``image``."""
    return {
        name.removeprefix(AGENT).removeprefix(HELPER)
        for name, container in _containers(docker).items()
        if name.startswith((AGENT, HELPER)) and container["Image"] != image
    }


def _containers(docker: Docker) -> dict[str, Any]:
    """Map each service's name to Docker's specification of its containers."""
    specifications = [service["Spec"] for service in _services(docker)]
    return {str(spec["Name"]): spec["TaskTemplate"]["ContainerSpec"] for spec in specifications}


def _environ(container: Mapping[str, Any]) -> dict[str, str]:
    pairs = (line.partition("=") for line in container.get("Env") or [])
    return {name: value for name, _, value in pairs}


def _manager(swarm: Mapping[str, Any]) -> str:
    """Return the manager's address and port, which a machine needs to join the swarm."""
    managers = swarm.get("RemoteManagers") or []
    own = next((entry for entry in managers if entry["NodeID"] == swarm["NodeID"]), None)
    return str(own["Addr"]) if own else f"{swarm['NodeAddr']}:2377"


def install_agent(host: Host, docker: Docker, machine: FleetMachine, image: str) -> None:
    """Start an agent on a new machine, so that game servers there can reach the metagame.

    If ``helper_settings`` is not empty, the machine gets an allowlist helper, too. Raises Failed if
    the agent or the helper does not run within ``START_S``.
    """
    home = host.need_folder("metagame.env")
    settings = host.settings("metagame", MetagameSettings)
    if settings.fleet_port is None:
        fail("FLEET_PORT is not set in metagame.env. Run svcctl fleet init again.")
    if _numbers(machine.version) < OLDEST_DOCKER:
        fail(
            f"{machine.name} has only Docker version {machine.version}. Install Docker 20.10 or"
            f" later on {machine.name}."
        )
    helper = helper_settings(host)
    address = str(docker.swarm()["NodeAddr"])
    try:
        folder = FleetFolder(home / FOLDER)
        credential = folder.issue(
            machine.id, machine.address, address, settings.fleet_port, machine.engine_address
        )
    except BadFleet as error:
        fail(str(error))
    _remove_agent(docker, machine.id)  # an interrupted installation
    name, words, command = f"{AGENT}{machine.id}", [], AGENT_COMMAND
    _create_secret(docker, name, machine, credential)
    if helper:
        _create_helper_secret(docker, machine)
        _create_helper(docker, machine, helper, image)
        words, command = ["--secret", _mounted(machine)], [*command, "--env-file", HELPER_FILE]
    _create_service(
        docker, name, machine, *words,
        "--entrypoint", TWISTD, "--secret", f"source={name},target=svc-node",
        "--mount", f"type=bind,source={ENGINE},target=/var/run/docker.sock",
        image, *command,
    )  # fmt: skip
    allow(host, machine.engine_address, allowed=True)
    _wait_until_running(docker, machine, name, *([f"{HELPER}{machine.id}"] if helper else []))


def update_agent(host: Host, docker: Docker, machine: FleetMachine, image: str) -> None:
    """Update the allowlist settings and the image of a machine's agent and helper.

    If ``image`` is empty, both use the agent's current image. Options that the owner has added to
    a service are kept, and a service that needs no change does not restart. The agent is updated
    before the helper. If an updated service does not run, it is rolled back, and Failed is raised.
    """
    name, helper_name = f"{AGENT}{machine.id}", f"{HELPER}{machine.id}"
    containers = _containers(docker)
    agent, helper = containers[name], containers.get(helper_name)
    settings = {} if SECRET in _environ(agent) else helper_settings(host)
    image = image or str(agent["Image"])
    has_secret = helper_name in [entry["SecretName"] for entry in agent.get("Secrets") or []]
    secret_exists = ("secret", helper_name) in _agent_parts(docker, machine.id)
    words = _image_change(agent, image)
    if settings and not has_secret:
        if not secret_exists:
            _create_helper_secret(docker, machine)
        command = " ".join([*AGENT_COMMAND, "--env-file", HELPER_FILE])
        words += ["--secret-add", _mounted(machine), "--args", command]
    elif has_secret and not settings:
        words += ["--secret-rm", helper_name, "--args", " ".join(AGENT_COMMAND)]
    _update_service(docker, machine, name, words)
    if not settings:
        if helper is not None:
            docker.run("service", "rm", helper_name)
        if secret_exists:
            docker.run("secret", "rm", helper_name)
    elif helper is None:
        _create_helper(docker, machine, settings, image)
        _wait_until_running(docker, machine, helper_name)
    else:
        changed = settings.items() - _environ(helper).items()
        added = [word for pair in sorted(changed) for word in ("--env-add", "=".join(pair))]
        _update_service(docker, machine, helper_name, _image_change(helper, image) + added)


def _image_change(container: Mapping[str, Any], image: str) -> list[str]:
    return [] if container["Image"] == image else ["--no-resolve-image", "--image", image]


def _update_service(docker: Docker, machine: FleetMachine, name: str, words: list[str]) -> None:
    if not words:
        return
    docker.run("service", "update", "--detach", "--quiet", *words, name)
    try:
        _wait_until_running(docker, machine, name)
    except Failed:
        docker.run("service", "rollback", "--detach", "--quiet", name)
        raise


def _wait_until_running(docker: Docker, machine: FleetMachine, *names: str) -> None:
    """Wait until each service has run for ``SETTLED_S`` without a restart; raises Failed if not."""
    begin = since = time.monotonic()
    running: list[str] = []
    earlier: set[str] | None = None  # tasks that had failed before
    error, missing = "", None
    while (now := time.monotonic()) < begin + START_S and not missing:
        tasks = _tasks(docker, "service", "ps", *names)
        current = [task.id for task in tasks if task.runs]
        if current != running or len(current) < len(names):
            running, since = current, now
        elif now - since >= SETTLED_S:
            return
        failed = {task.id: f"{task.name}: {task.error}" for task in tasks if task.error}
        earlier = {*failed} if earlier is None else earlier
        error = next((line for id, line in failed.items() if id not in earlier), "")
        missing = NO_IMAGE.search(error)
        error = error or next(iter(failed.values()), f"{names[0]} does not start")
        time.sleep(POLL_S)
    cure = f"See docker service logs {names[0]}"
    if missing:
        cure = f"Copy the image there: {_copying(missing[1])}"
    fail(f"{machine.name}: {error}. {cure}")


@frozen
class SwarmTask:
    """A task of a Docker service: the service's container on a machine."""

    id: str
    name: str
    runs: bool
    error: str
    has_ended: bool = False


def _tasks(docker: Docker, *words: str) -> list[SwarmTask]:
    """Return the tasks that a ``docker`` command lists, each service's latest task first."""
    columns = "{{.ID}}\t{{.Name}}\t{{.DesiredState}} {{.CurrentState}}\t{{.Error}}"
    lines = docker.run(*words, "--no-trunc", "--format", columns).splitlines()
    rows = [line.split("\t", 3) for line in lines]
    return [
        SwarmTask(
            id,
            name,
            state.startswith("Running Running"),
            error.strip('"'),
            " Running" not in state,
        )
        for id, name, state, error in (row for row in rows if len(row) == 4)
    ]


def _create_secret(docker: Docker, name: str, machine: FleetMachine, content: bytes) -> None:
    label = f"{NODE_LABEL}={machine.id}"
    docker.run("secret", "create", "--label", label, name, "-", sent=content)


def _create_helper_secret(docker: Docker, machine: FleetMachine) -> None:
    shared = f"{SECRET}={secrets.token_urlsafe(32)}\n"
    _create_secret(docker, f"{HELPER}{machine.id}", machine, shared.encode())


def _mounted(machine: FleetMachine) -> str:
    """Return docker's option that mounts the secret of the machine's helper."""
    return f"source={HELPER}{machine.id},target=svc-allowlist,mode=0400"


def _create_helper(
    docker: Docker, machine: FleetMachine, environ: Mapping[str, str], image: str
) -> None:
    settings = [word for pair in environ.items() for word in ("--env", "=".join(pair))]
    _create_service(
        docker, f"{HELPER}{machine.id}", machine, *settings, "--secret", _mounted(machine),
        "--entrypoint", "/bin/sh", "--cap-add", "NET_ADMIN", "--read-only",
        "--mount", f"type=volume,source={HELPER_DATA},target={HELPER_FOLDER}",
        image, "-c", GUARD,
    )  # fmt: skip


def _create_service(docker: Docker, name: str, machine: FleetMachine, *words: str) -> None:
    """Create a Docker service that runs on one machine, with the network mode ``host``."""
    docker.run(
        "service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", name,
        "--label", f"{NODE_LABEL}={machine.id}", "--constraint", f"node.id=={machine.id}",
        "--network", "host", "--restart-condition", "any", "--user", "root",
        "--cap-drop", "ALL", "--no-healthcheck", "--workdir", "/",
        "--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=2",
        "--reserve-memory", "64M", "--limit-memory", "256M", *words,
    )  # fmt: skip


def allow(host: Host, address: str, *, allowed: bool) -> None:
    """Add an address to GAMESERVER_ALLOW_FROM, or remove an address from it.

    A running metagame applies the change immediately. If no metagame runs, ``metagame.env`` is
    changed.
    """
    owner = owner_of(host)
    try:
        current = _live_value(owner.get("DashboardSettings"))
        if (value := _changed(current, address, allowed=allowed)) != current:
            owner.post("DashboardSetting", {"Name": ALLOW_FROM, "Value": value})
    except NobodyListens:
        current = host.variables("metagame").get(ALLOW_FROM, "")
        if (value := _changed(current, address, allowed=allowed)) != current:
            change(host.need_folder() / "metagame.env", {ALLOW_FROM: value})


def _disallow(host: Host, address: str, remaining: Iterable[FleetMachine]) -> None:
    """Remove an address from GAMESERVER_ALLOW_FROM if no remaining machine has this address."""
    if address and address not in [machine.engine_address for machine in remaining]:
        allow(host, address, allowed=False)


def _disallow_departed(host: Host, address: str, remaining: Iterable[FleetMachine]) -> None:
    """Call ``_disallow`` for a machine that has left the swarm.

    If that fails, the error message contains the machine's address.
    """
    try:
        _disallow(host, address, remaining)
    except Failed as error:
        fail(
            f"The certificate is revoked, but {address} is still in {ALLOW_FROM}: {error.message}."
            f" Remove {address} from {ALLOW_FROM} in the dashboard's settings. Then run this"
            " command again."
        )


def _live_value(reply: Any) -> str:
    return next(
        str(setting["value"] or "")
        for section in reply["sections"]
        for setting in section["settings"] or ()
        if setting["name"] == ALLOW_FROM
    )


def _changed(current: str, address: str, *, allowed: bool) -> str:
    """Add an address to a comma-separated list, or remove it if ``allowed`` is false."""
    rest = [word for word in map(str.strip, current.split(",")) if word not in ("", address)]
    return ",".join([*rest, address] if allowed else rest)


def _remove_agent(docker: Docker, node: str) -> None:
    for kind, name in _agent_parts(docker, node):
        docker.run(kind, "rm", name)


def _agent_tasks(docker: Docker, node: str) -> set[str]:
    """Return the ids of the running tasks of a machine's agent and helper."""
    tasks = _tasks(docker, "node", "ps", node)
    return {task.id for task in tasks if task.runs and task.name.startswith((AGENT, HELPER))}


def _wait_until_ended(docker: Docker, node: str, tasks: set[str]) -> None:
    """Wait until a machine has stopped these tasks, for at most ``STOP_S``.

    When a machine leaves the swarm, Docker kills an allowlist helper that still runs there. A
    killed helper cannot delete its firewall table.
    """
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        listed = _tasks(docker, "node", "ps", node)
        if tasks.isdisjoint(task.id for task in listed if not task.has_ended):
            return
        time.sleep(POLL_S)


def _agent_parts(docker: Docker, node: str) -> list[tuple[str, str]]:
    """Return the kind and name of each Docker service and secret that we created for a machine."""
    words = "ls", "--filter", f"label={NODE_LABEL}={node}", "--format", "{{.Name}}"
    return [
        (kind, name) for kind in ("service", "secret") for name in docker.run(kind, *words).split()
    ]


@host_command(fleet, "nodes")
def nodes(host: Host, out: Out) -> None:
    """List the machines, with their memory and hunts."""
    docker = Docker.from_deploy_settings(host)
    docker.swarm()
    listed = machines(docker)
    out.data([{**asdict(machine), "status": machine.status} for machine in listed])
    out.table(
        ["machine", "id", "players connect to", "status", "free", "reserved", "hunts", "Docker"],
        [
            [
                machine.name,
                machine.id[:12],
                machine.address,
                machine.status,
                f"{machine.memory_mb - machine.reserved_mb} MB",
                f"{machine.reserved_mb} MB",
                str(machine.hunts),
                machine.version,
            ]
            for machine in listed
        ],
    )
    home = host.home
    for node in [] if home is None else _without_machine(FleetFolder(home / FOLDER), listed):
        out.text(f"{node} has left the swarm, but its certificate is still valid. Revoke it: "
                 f"svcctl fleet remove {node}")  # fmt: skip


def _certificates(host: Host) -> FleetFolder:
    return FleetFolder(host.need_folder("metagame.env") / FOLDER)


def _without_machine(folder: FleetFolder, listed: Iterable[FleetMachine]) -> list[str]:
    """Return the ids of machines that have a certificate but have left the swarm."""
    ids = {machine.id for machine in listed}
    try:
        return [node.id for node in folder.nodes() if node.id not in ids]
    except BadFleet as error:
        fail(str(error))


def machines(docker: Docker) -> list[FleetMachine]:
    """Return the machines of the swarm."""
    ids = docker.run("node", "ls", "--quiet").split()
    reserved = _reservations(docker)
    return [
        _machine(docker, sent, reserved)
        for sent in docker.run_for_json("node", "inspect", *ids)
        if ids
    ]


def _services(docker: Docker) -> list[Any]:
    """Return all services; list them again if a service was deleted before it was inspected."""
    attempt = 1
    while names := docker.run("service", "ls", "--quiet").split():
        try:
            return list(docker.run_for_json("service", "inspect", *names))
        except Failed as error:
            if "no such service" not in str(error).lower() or attempt == ATTEMPTS:
                raise
        attempt += 1
    return []


def _reservations(docker: Docker) -> dict[str, int]:
    """Map each service's name to the memory that the service reserves, in MB."""
    services = _services(docker)
    reserved = {}
    for service in services:
        resources = service["Spec"]["TaskTemplate"].get("Resources") or {}
        memory = (resources.get("Reservations") or {}).get("MemoryBytes", 0)
        reserved[str(service["Spec"]["Name"])] = int(memory) // MB
    return reserved


def _machine(docker: Docker, sent: Any, reserved: Mapping[str, int]) -> FleetMachine:
    node = str(sent["ID"])
    words = ("node", "ps", node, "--no-trunc", "--filter", "desired-state=running")
    tasks = docker.run(*words, "--format", "{{.Name}}").split()
    services = [name.rpartition(".")[0] for name in tasks]
    hunts = [
        name
        for name in services
        if name.startswith("svc-")
        and not name.startswith((AGENT, HELPER))
        and name not in ("svc-city", "svc-dojo")
    ]
    spec, description, status = sent["Spec"], sent["Description"], sent["Status"]
    engine = str(status.get("Addr", ""))
    return FleetMachine(
        node,
        str(description.get("Hostname", "")),
        str((spec.get("Labels") or {}).get(ADDRESS, "")) or engine,
        engine,
        str(status.get("State", "")),
        str(spec.get("Availability", "")),
        str((description.get("Engine") or {}).get("EngineVersion", "")),
        int((description.get("Resources") or {}).get("NanoCPUs", 0)) / 1e9,
        int((description.get("Resources") or {}).get("MemoryBytes", 0)) // MB,
        sum(reserved.get(name, 0) for name in services),
        len(hunts),
        f"{AGENT}{node}" in reserved,
    )


def missing_images(docker: Docker, node: str) -> set[str]:
    """Return the images that services on a machine need, but that the machine lacks."""
    tasks = _tasks(docker, "node", "ps", node)
    running = {task.name for task in tasks if task.runs}
    matches = [NO_IMAGE.search(task.error) for task in tasks if task.name not in running]
    return {match[1] for match in matches if match}


def _named(listed: list[FleetMachine], word: str) -> FleetMachine:
    """Return the machine whose id or name is ``word``, or whose id begins with ``word``.

    Raises Failed if no machine or several machines match. A whole id takes precedence, because
    a machine can choose another machine's id as its name.
    """
    fitting = [machine for machine in listed if machine.id == word] or [
        machine
        for machine in listed
        if machine.name == word or (len(word) >= 4 and machine.id.startswith(word))
    ]
    if len(fitting) == 1:
        return fitting[0]
    problem = f"no machine has the name or id {word}"
    if fitting:
        problem = f"several machines match {word}"
    fail(f"{problem}. Give the full id of a machine. To list the ids, run: svcctl fleet nodes")


@host_command(fleet, "drain", reason=True)
@click.argument("node")
@click.option("--undo", is_flag=True, help="Let the machine run game servers again.")
def drain(host: Host, out: Out, node: str, undo: bool, reason: str) -> None:
    """Start no more hunts on a machine.

    When the machine's last hunt has ended, its city and dojo move to another machine.
    """
    docker = Docker.from_deploy_settings(host)
    docker.swarm()
    machine = _named(machines(docker), node)
    if undo:
        words = ["--availability", "active", "--label-rm", DRAIN]
        message = f"{machine.name} runs game servers again."
    else:
        words = ["--availability", "pause", "--label-add", f"{DRAIN}=1"]
        message = f"{machine.name} starts no more hunts; {machine.hunts} are still running there."
    with noted(host, "fleet drain", machine.id, reason=reason) as trace:
        docker.run("node", "update", *words, machine.id)
        trace.after = {"drains": not undo}
    out.data({"id": machine.id, "hunts": machine.hunts})
    out.text(message)


@host_command(fleet, "remove", reason=True)
@click.argument("node")
@click.option("--force", is_flag=True, help="Remove the machine even if hunts run there; they end.")
def remove(host: Host, out: Out, node: str, force: bool, reason: str) -> None:
    """Remove a machine.

    From now on, the metagame refuses the machine's certificate.
    """
    folder, docker = _certificates(host), Docker.from_deploy_settings(host)
    swarm, listed = docker.swarm(), machines(docker)
    ids = [machine.id for machine in listed]
    has_left = node in _without_machine(folder, listed)  # after docker node rm
    # the agent is still there if an earlier run failed after the revocation
    if has_left or (node not in ids and _agent_parts(docker, node)):
        gone = next((entry for entry in folder.nodes() if entry.id == node), None)
        advice = _leaving(docker, node)
        with noted(host, "fleet remove", node, reason=reason):
            folder.revoke(node)
            if gone is not None:
                _disallow_departed(host, gone.engine_address, listed)
            _remove_agent(docker, node)
        out.data({"id": node})
        out.text(f"The certificate of {node} is revoked. {advice}")
        if gone is not None and not gone.engine_address:  # lists of older versions lack the address
            out.text(f"Remove its address from {ALLOW_FROM} in the dashboard's settings.")
        return
    machine = _named(listed, node)
    advice = _leaving(docker, machine.id)
    if swarm["NodeID"] == machine.id:
        fail("This machine cannot be removed, because it manages the swarm.")
    if machine.hunts and machine.state == "ready" and not force:
        fail(
            f"{machine.name} still has running hunts: {machine.hunts}. Drain the machine first, or"
            " give --force."
        )
    with noted(host, "fleet remove", machine.id, reason=reason):
        folder.revoke(machine.id)
        running = _agent_tasks(docker, machine.id)
        _remove_agent(docker, machine.id)
        if machine.state == "ready":
            _wait_until_ended(docker, machine.id, running)
        _disallow(host, machine.engine_address, [each for each in listed if each is not machine])
        docker.run("node", "rm", "--force", machine.id)
    out.data({"id": machine.id})
    out.text(f"{machine.name} is removed. {advice}")


def _leaving(docker: Docker, node: str) -> str:
    """Return the commands for the owner to run on a machine that is removed.

    The commands also delete the firewall table that a killed helper leaves.
    """
    image = _containers(docker).get(f"{AGENT}{node}", {}).get("Image", _agent_image())
    return (
        "Run there: docker swarm leave; docker run --rm --network host --cap-drop ALL --cap-add "
        f"NET_ADMIN --user root --entrypoint /usr/sbin/nft {image} 'add {TABLE}; delete {TABLE}'; "
        f"docker volume rm -f {HELPER_DATA}"
    )
