"""``svc-deploy``: the service that starts and watches game servers."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import Logger

from svcserver.deploy.family import Family, ProcessTable, become_subreaper, end_strays
from svcserver.deploy.fleet import Fleet, MemoryGuard
from svcserver.deploy.freeze_watch import FreezeDetector, freeze_watch
from svcserver.deploy.hunts import GameServerKind, HuntTable
from svcserver.deploy.launch_history import LaunchHistory
from svcserver.deploy.orders import Program
from svcserver.deploy.orphans import MARK, end_left_over, mark
from svcserver.deploy.owner_actions import OwnerActions
from svcserver.deploy.process import Spawner, adopt
from svcserver.deploy.readiness import Readiness
from svcserver.deploy.routes import Deploy
from svcserver.deploy.saved_servers import SavedServers
from svcserver.deploy.settings import DeploySettings, check, numbers
from svcserver.deploy.supervisor import Supervisor
from svcserver.kernel.counters import Figure
from svcserver.kernel.datafiles import needed_by
from svcserver.kernel.every import Every
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.monotonic import MonotonicClock, monotonic_reactor
from svcserver.kernel.processes import sizes
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import BadSetting, whole, with_env_file
from svcserver.web.front import FrontDoor, Observer
from svcserver.web.local import LocalGate
from svcserver.web.metrics import CountingRequests, show_figures
from svcserver.web.options import ServiceOptions
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from svcserver.web.serving import Listening, OrderedServices, StartWarnings, TopService, top_service
from svcserver.web.site import HttpFactory

log = Logger()
MAX_JSON = 100 * 1024  # bytes of a body
WATCHDOG_S = 60.0  # between two looks at the game servers
# The file with the host's signing key, with which the deploy server checks tickets.
# It is not in deploy.env, because game servers inherit the deploy server's environment.
FILE = "metagame.env"


@define
class SigningKeys:
    """The signing keys whose tickets are valid: the current and the previous one.

    The key file is read again when it has changed. The previous key stays valid, because a running
    metagame uses it until its next restart.
    """

    file: Path
    configured: Secret | None = None  # in our own settings, which take precedence
    _keys: list[str] = field(factory=list, init=False, repr=False)  # the newest first
    _version: tuple[int, int] | None = field(default=None, init=False)

    @classmethod
    def beside(cls, env_file: str | None, configured: Secret | None = None) -> SigningKeys:
        """Return the keys in the folder of ``env_file``, or in the current folder if it is None."""
        folder = Path() if env_file is None else Path(env_file).absolute().parent
        return cls((folder / FILE).absolute(), configured)

    def __call__(self) -> list[str]:
        """Return the valid keys, newest first."""
        if self.configured is not None and self.configured.reveal().strip():
            return [self.configured.reveal()]
        try:
            state = self.file.stat()
            version = state.st_mtime_ns, state.st_ino
            if version != self._version:
                key = with_env_file(str(self.file), {}).get(SIGNING_KEY, "").strip()
                self._version = version
                if key and key not in self._keys[:1]:
                    self._keys = [key, *self._keys][:2]
        except (OSError, BadSetting) as error:
            log.debug("{file} cannot be read: {why}", file=str(self.file), why=str(error))
        return self._keys

    def warning(self) -> str:
        """Return a warning if there is no signing key, or "" if there is one.

        Without a signing key, no ticket can be checked. The warning names the remedy.
        """
        if self():
            return ""
        return (
            f"no {SIGNING_KEY} in {self.file}: console, start, stop, restart and launch keys are "
            "refused. Start this service with --env-file and the deploy.env of the host's folder."
        )


NAME = "svc-deploy"
OUTPUT = Path("gameserver-logs")
STATE = Path("gameserver-state")
HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has no SIGHUP


class Options(ServiceOptions):
    """The command line: ``--env-file`` only; all settings come from the environment."""

    name, shape = NAME, DeploySettings
    settings: DeploySettings
    owner_keys: SigningKeys
    longdesc = 'Starts and watches game servers. Settings: the page "Configuration".'

    def check(self) -> list[str]:
        self.owner_keys = SigningKeys.beside(self["env-file"], self.settings.signing_key)
        return [*check(self.settings), *filter(None, [self.owner_keys.warning()])]


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the deploy server as a service."""
    if reactor is None:
        reactor = monotonic_reactor()
    settings = options.settings
    top = top_service(reactor, production=settings.production, level=settings.log_level)
    supervisor = supervise(settings, reactor, options.environ)
    refusals = CountingRequests(top.counters)
    traces = not settings.production
    door = front_door(supervisor, refusals, traces=traces, secrets=options.owner_keys)
    listening = Listening(
        reactor,
        "deploy",
        settings.port,
        settings.bind_host,
        HttpFactory(door, reactor, top.counters, proxy_headers=(GATEWAY,)),
    )
    here = settings.bind_host, settings.port

    on_swarm = supervisor.host is None
    if sys.platform == "linux" and not on_swarm:
        supervisor.family = partial(Family, reactor, snapshot=ProcessTable())

    def tidy() -> Deferred[None]:
        make_state_folder()
        become_subreaper()
        adopted = supervisor.adopt(f"{MARK}={here[0]}:{here[1]}", partial(adopt, reactor))
        end_left_over(*here, adopted=adopted, servers=supervisor.fleet.servers)
        return supervisor.begin()

    def sweep() -> Deferred[None]:
        return Deferred.fromCoroutine(end_strays(reactor))

    watch = Watch(reactor, supervisor, _at_boot(settings), tidy, top.lines.end, sweep)
    # listen first: only the process that holds the address may adopt or kill game servers
    fleet = OrderedServices()  # ending game servers still call the metagame, which then calls us
    parts = [listening, watch]
    if settings.frozen_s and not on_swarm:
        detector, end = FreezeDetector(settings.frozen_s), OwnerActions(supervisor).end_frozen
        parts.append(freeze_watch(reactor, detector, supervisor.fleet, end, supervisor.sockets_of))
    for part in parts:
        part.setServiceParent(fleet)
    StartWarnings(options.warnings).setServiceParent(top)
    HandOver(reactor, watch).setServiceParent(top)
    fleet.setServiceParent(top)
    reactor.addSystemEventTrigger("after", "shutdown", watch.exit_if_failed)
    show_figures(top, reactor, "deploy", settings.metrics_port, figures(supervisor))
    return top


def make_state_folder() -> None:
    """Make the folder of the files that survive a restart: launch history and ended matches."""
    try:
        STATE.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        text = "{path} cannot be created: {why}; a restart forgets which hunts ended"
        log.warn(text, path=str(STATE.resolve()), why=error.strerror)


def figures(supervisor: Supervisor) -> dict[str, Figure]:
    """Return the metrics that METRICS_PORT serves, by name."""
    return {
        "svc_deploy_game_servers_running": Figure(
            "Game servers alive now.", lambda: len(supervisor.records())
        ),
        "svc_deploy_launches_waiting": Figure("Launches in the queue.", supervisor.queued),
        "svc_deploy_memory_shortages_total": Figure(
            "Launches refused because memory was short.", lambda: supervisor.shortages, counts=True
        ),
    }


def front_door(
    supervisor: Supervisor,
    *observers: Observer,
    traces: bool = False,
    secrets: Callable[[], Iterable[str]] = tuple,
) -> FrontDoor:
    """Return the routes, which only programs on this machine may call.

    The owner's routes need a ticket that is signed with a key from ``secrets``.
    """
    gate = LocalGate(secrets)
    door = FrontDoor(
        gate, traces=traces, max_json=MAX_JSON, observers=observers, unmatched=_unknown
    )
    return door.mount(Deploy(supervisor))


def _unknown(request: HttpRequest) -> Answer:
    text = f"<!DOCTYPE html>\n<html><body><pre>Cannot {request.method}</pre></body></html>\n"
    return Answer(404, text.encode(), content_type="text/html; charset=utf-8")


def supervise(settings: DeploySettings, reactor: Any, environ: Mapping[str, str]) -> Supervisor:
    """Return the supervisor for these settings; game servers inherit ``environ``."""
    guard, broken = _guard(settings)
    ready = Path(settings.ready_dir) if settings.ready_dir else None
    program = Program(
        settings.binary,
        settings.launcher,
        settings.arguments,
        settings.key,
        OUTPUT.resolve(),
        settings.launch_keys,
    )
    inherited = {**environ, **mark(settings.bind_host, settings.port)}
    inherited.pop(SIGNING_KEY, None)
    if settings.launch_keys:
        inherited.pop("METAGAME_API_KEY", None)
    with needed_by(NAME):
        table = HuntTable.load(settings.city_map, settings.trials_map)
    supervisor = Supervisor(
        clock=reactor,
        wall_clock=MonotonicClock().read_epoch,
        engine=Spawner(reactor, environ=inherited),
        program=program,
        table=table,
        fleet=Fleet(settings.first_port, settings.last_port, settings.hunt_worker),
        host=settings.my_ip,
        is_bound=is_bound,
        readiness=Readiness(
            reactor, ready, lambda: whole(0, 60_000)(settings.startup_grace_ms) / 1000
        ),
        guard=guard,
        broken_guard=broken,
        spacing_s=settings.spacing_s,
        liveness=settings.liveness,
        saved=SavedServers(STATE.resolve()),
        history=LaunchHistory(STATE.resolve() / "launches.log"),
    )
    if settings.engine == "swarm":
        from svcserver.deploy.swarm_setup import use_swarm

        use_swarm(supervisor, settings, reactor, STATE.resolve())
    return supervisor


def _guard(settings: DeploySettings) -> tuple[MemoryGuard | None, str]:
    """Return the memory guard (None if it is off) and the fault in its settings ("" if none).

    The deploy server starts in spite of a fault, but each launch then fails.
    """
    if not settings.memory_guard:
        return None, ""
    figures = {
        "GAMESERVER_MIN_FREE_MB": settings.min_free_mb,
        "GAMESERVER_STARTUP_MB": settings.startup_mb,
        "GAMESERVER_HUNT_STARTUP_MB": settings.hunt_startup_mb or settings.startup_mb,
        "GAMESERVER_RESERVATION_SECONDS": settings.reservation_seconds,
    }
    values: list[int] = []
    for name, text in figures.items():
        try:
            values.append(numbers(text))
        except ValueError as error:
            return None, f"{name} {error}"
    floor, cost, hunt_cost, seconds = values
    return MemoryGuard(floor, cost, hunt_cost, seconds, free_mb), ""


def free_mb() -> float:
    """Return the system's MemAvailable in MB, or infinity if it cannot be read."""
    available = sizes().get("MemAvailable")
    if available is None:
        log.warn("the free memory cannot be read. The memory guard allows every launch")
        return float("inf")
    return available / 1024


def is_bound(port: int) -> bool:
    """Return whether another program uses the UDP port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - where game servers listen
        except OSError:
            return True
    return False


def _at_boot(settings: DeploySettings) -> list[GameServerKind]:
    if settings.hunt_worker:
        return []
    return [GameServerKind.CITY, *([GameServerKind.DOJO] if settings.dojo_at_boot else [])]


@define(eq=False, slots=False)
class Watch(Service):
    """The service that starts the city and the dojo, and runs the watchdog.

    When the service stops, it ends all game servers. If ``hands_over`` is True, they keep running,
    and the next deploy server adopts them.
    """

    clock: Any
    supervisor: Supervisor
    at_boot: list[GameServerKind]
    tidy: Callable[[], object] = lambda: None  # if it returns a Deferred, the first starts wait
    last_words: Callable[[], object] = lambda: None
    # kills the processes that remain when all game servers have ended
    sweep: Callable[[], Deferred[None]] = lambda: succeed(None)
    failed: bool = False  # a city or dojo did not boot: exit with status 1 at the stop
    hands_over: bool = False
    _rounds: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        look = self.supervisor.watch
        self._rounds = Every(self.clock, WATCHDOG_S, look, "the watchdog's check")

    def startService(self) -> None:
        Service.startService(self)
        maybeDeferred(self.tidy).addCallback(lambda _: self._boot())

    def _boot(self) -> None:
        if self.running:
            for kind in self.at_boot:
                self.supervisor.boot(kind).addCallback(self._booted)
            self._rounds.startService()

    def _booted(self, well: bool) -> None:
        self.failed = self.failed or not well

    def exit_if_failed(self) -> None:
        """Exit with status 1 if a city or dojo did not start; called when the reactor stops."""
        if self.failed:
            self.last_words()
            os._exit(1)

    def stopService(self) -> Deferred[Any]:
        Service.stopService(self)
        self._rounds.stopService()
        if self.hands_over:
            log.info("game servers keep running: the deploy server adopts them at its next start")
            self.supervisor.hand_over()
            self.supervisor.leave()
            return succeed(None)
        return self.supervisor.stop().addBoth(self._stopped)

    def _stopped(self, result: Any) -> Deferred[Any]:
        self.supervisor.leave()
        return self.sweep().addCallback(lambda _: result)


@define(eq=False, slots=False)
class HandOver(Service):
    """The handler of SIGHUP, which stops the deploy server for a restart and ends no game server.

    ``svc-stack`` and the systemd unit send SIGHUP for a restart, and SIGTERM for a stop.
    """

    reactor: Any
    watch: Watch

    def startService(self) -> None:
        Service.startService(self)
        if HANG_UP is not None:
            signal.signal(HANG_UP, lambda *_: self.reactor.callFromThread(self._leave))

    def _leave(self) -> None:
        if self.running:  # a second signal must not interrupt the stop
            self.watch.hands_over = True
            self.reactor.stop()
