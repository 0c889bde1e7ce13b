"""``svc-deploy``: starts and watches game servers."""

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
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from svcserver.deploy.adopted import adopt
from svcserver.deploy.family import Family, Snapshot, become_subreaper, end_strays
from svcserver.deploy.fleet import Fleet, MemoryGuard
from svcserver.deploy.frozen import Freezes, freeze_watch
from svcserver.deploy.handling import Handling
from svcserver.deploy.hunts import HuntTable, Kind
from svcserver.deploy.kept import KeptServers
from svcserver.deploy.orphans import MARK, end_left_over, mark
from svcserver.deploy.process import Spawner
from svcserver.deploy.readiness import Readiness
from svcserver.deploy.routes import MAX_JSON, Deploy
from svcserver.deploy.settings import Settings, check, numbers
from svcserver.deploy.supervisor import WATCHDOG_S, Program, Supervisor
from svcserver.kernel.counters import Figure
from svcserver.kernel.datafiles import needed_by
from svcserver.kernel.every import Every
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.monotonic import MonotonicClock, monotonic_reactor
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import BadSetting, whole, with_env_file
from svcserver.web.front import FrontDoor, Observer
from svcserver.web.local import LocalGate
from svcserver.web.metrics import CountingRequests, show_figures
from svcserver.web.options import ServiceOptions
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from svcserver.web.serving import Listening, OrderedServices, TopService, top_service, warn_at_start
from svcserver.web.site import HttpFactory

log = Logger()
# The host's signing key, by which the deploy server checks the machine's tickets.
# It stands in ``metagame.env`` beside ``deploy.env``. Game servers inherit the deploy server's
# environment, so the key must not be there.
FILE = "metagame.env"


@define
class OwnerKeys:
    """The signing keys whose tickets count: the present one and the one before it.

    The file is read again when it has changed. A metagame signs with the key before it until
    it restarts after ``svcctl keys rotate``.
    """

    file: Path
    given: Secret | None = None  # in our own settings, which win
    _keys: list[str] = field(factory=list, init=False, repr=False)  # the newest first
    _version: tuple[int, int] | None = field(default=None, init=False)

    @classmethod
    def beside(cls, env_file: str | None, given: Secret | None = None) -> OwnerKeys:
        """Those of the host that ``env_file`` belongs to; without one, of this folder."""
        folder = Path() if env_file is None else Path(env_file).absolute().parent
        return cls((folder / FILE).absolute(), given)

    def __call__(self) -> list[str]:
        """The keys that count now; none where no key is found."""
        if self.given is not None and self.given.reveal().strip():
            return [self.given.reveal()]
        try:
            state = self.file.stat()
            version = state.st_mtime_ns, state.st_ino
            if version != self._version:
                key = with_env_file(str(self.file), {}).get(SIGNING_KEY, "").strip()
                self._version = version
                if key and key not in self._keys[:1]:
                    self._keys = [key, *self._keys][:2]
        except (OSError, BadSetting) as why:
            log.debug("{file} cannot be read: {why}", file=str(self.file), why=str(why))
        return self._keys

    def warning(self) -> str:
        """What is missing for tickets to count, and the cure; empty where nothing is."""
        if self():
            return ""
        return (
            f"no {SIGNING_KEY} in {self.file}: console, start, stop, restart and keys of launches "
            "are refused; start this service with --env-file in the host's folder"
        )


NAME = "svc-deploy"
OUTPUT = Path("gameserver-logs")
KEPT = Path("gameserver-state")
HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none


class Options(ServiceOptions):
    """The command line: ``--env-file`` only; all settings come from the environment."""

    name, shape = NAME, Settings
    settings: Settings
    owner_keys: OwnerKeys
    longdesc = 'Starts and watches game servers. Settings: the page "Configuration".'

    def check(self) -> list[str]:
        self.owner_keys = OwnerKeys.beside(self["env-file"], self.settings.signing_key)
        return [*check(self.settings), *filter(None, [self.owner_keys.warning()])]


def makeService(options: Options, reactor: Any = None) -> TopService:
    """The deploy server as a service."""
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

    if sys.platform == "linux":
        supervisor.family = partial(Family, reactor, snapshot=Snapshot())

    def tidy() -> None:
        become_subreaper()
        adopted = supervisor.adopt(f"{MARK}={here[0]}:{here[1]}", partial(adopt, reactor))
        end_left_over(*here, adopted=adopted, servers=supervisor.fleet.servers)

    def sweep() -> Deferred[None]:
        return Deferred.fromCoroutine(end_strays(reactor))

    watch = Watch(reactor, supervisor, _at_boot(settings), tidy, top.lines.end, sweep)
    # listening comes first: only who holds the address may adopt or kill what an earlier run left
    fleet = OrderedServices()  # ending game servers still call the metagame, which then asks us
    parts = [listening, watch]
    if settings.frozen_s:
        freezes, end = Freezes(settings.frozen_s), Handling(supervisor).freeze
        parts.append(freeze_watch(reactor, freezes, supervisor.fleet, end, supervisor.sockets_of))
    for part in parts:
        part.setServiceParent(fleet)
    warn_at_start(options.warnings).setServiceParent(top)
    HandOver(reactor, watch).setServiceParent(top)
    fleet.setServiceParent(top)
    reactor.addSystemEventTrigger("after", "shutdown", watch.tell_status)
    show_figures(top, reactor, "deploy", settings.metrics_port, figures(supervisor))
    return top


def figures(supervisor: Supervisor) -> dict[str, Figure]:
    """What ``/metrics`` on METRICS_PORT shows, by metric name; read at each scrape."""
    return {
        "svc_deploy_game_servers_running": Figure(
            "Game servers alive now.", lambda: len(supervisor.records())
        ),
        "svc_deploy_launches_waiting": Figure("Launches that wait their turn.", supervisor.queued),
    }


def front_door(
    supervisor: Supervisor,
    *observers: Observer,
    traces: bool = False,
    secrets: Callable[[], Iterable[str]] = tuple,
) -> FrontDoor:
    """The routes behind the loopback rule; an unknown path is the framework's HTML 404.

    ``secrets`` gives the signing keys whose tickets open the owner's routes.
    """
    gate = LocalGate(secrets)
    door = FrontDoor(
        gate, traces=traces, max_json=MAX_JSON, observers=observers, unmatched=_unknown
    )
    return door.mount(Deploy(supervisor))


def _unknown(request: HttpRequest) -> Answer:
    text = f"<!DOCTYPE html>\n<html><body><pre>Cannot {request.method}</pre></body></html>\n"
    return Answer(404, text.encode(), content_type="text/html; charset=utf-8")


def supervise(settings: Settings, reactor: Any, environ: Mapping[str, str]) -> Supervisor:
    """The supervisor under these settings; ``environ`` is what game servers inherit."""
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
    return Supervisor(
        clock=reactor,
        wall_clock=MonotonicClock().read,
        starter=Spawner(reactor, environ=inherited),
        program=program,
        table=table,
        fleet=Fleet(settings.first_port, settings.last_port, settings.hunt_worker),
        host=settings.my_ip,
        is_bound=is_bound,
        readiness=Readiness(reactor, ready, lambda: _grace_s(settings)),
        guard=guard,
        broken_guard=broken,
        spacing_s=settings.spacing_s,
        liveness=settings.liveness,
        kept=KeptServers(KEPT.resolve()),
    )


def _grace_s(settings: Settings) -> float:
    return float(whole(0, 60_000)(settings.startup_grace_ms)) / 1000


def _guard(settings: Settings) -> tuple[MemoryGuard | None, str]:
    """The guard and an empty text, or None and the bad setting, which makes launches fail."""
    if not settings.memory_guard:
        return None, ""
    figures = {
        "GAMESERVER_MIN_FREE_MB": settings.min_free_mb,
        "GAMESERVER_STARTUP_MB": settings.startup_mb,
        "GAMESERVER_HUNT_STARTUP_MB": settings.hunt_startup_mb or settings.startup_mb,
        "GAMESERVER_RESERVATION_SECONDS": settings.reservation_seconds,
    }
    read: list[int] = []
    for name, text in figures.items():
        try:
            read.append(numbers(text))
        except ValueError as why:
            return None, f"{name} {why}"
    floor, cost, hunt_cost, seconds = read
    return MemoryGuard(floor, cost, hunt_cost, seconds, free_mb), ""


def free_mb() -> float:
    """MemAvailable in MB; infinite where it cannot be read."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        log.warn("free memory cannot be read; the memory guard lets every launch pass")
    return float("inf")


def is_bound(port: int) -> bool:
    """Whether another program holds the UDP port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - where game servers listen
        except OSError:
            return True
    return False


def _at_boot(settings: Settings) -> list[Kind]:
    if settings.hunt_worker:
        return []
    return [Kind.CITY, *([Kind.DOJO] if settings.dojo_at_boot else [])]


@define(eq=False, slots=False)
class Watch(Service):
    """Starts the persistent worlds, runs the watchdog every minute, and ends all at the stop.

    With ``hands_over`` the stop ends no game server: the next deploy server adopts them.
    """

    clock: Any
    supervisor: Supervisor
    at_boot: list[Kind]
    tidy: Callable[[], object] = lambda: None
    last_words: Callable[[], object] = lambda: None
    # ends what is left when all game servers have ended
    sweep: Callable[[], Deferred[None]] = lambda: succeed(None)
    failed: bool = False  # a world did not boot: the server runs on, but exits with status 1
    hands_over: bool = False
    _rounds: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        look = self.supervisor.watch
        self._rounds = Every(self.clock, WATCHDOG_S, look, "the watchdog's round")

    def startService(self) -> None:
        Service.startService(self)
        self.tidy()
        for kind in self.at_boot:
            self.supervisor.boot(kind).addCallback(self._booted)
        self._rounds.startService()

    def _booted(self, well: bool) -> None:
        self.failed = self.failed or not well

    def tell_status(self) -> None:
        """Exit with status 1 where a world did not boot; called after the reactor's shutdown."""
        if self.failed:
            self.last_words()
            os._exit(1)

    def stopService(self) -> Deferred[Any]:
        Service.stopService(self)
        self._rounds.stopService()
        if self.hands_over:
            log.info("game servers run on: the next deploy server adopts them")
            self.supervisor.leave()
            return succeed(None)
        return self.supervisor.stop().addBoth(self._ended)

    def _ended(self, result: Any) -> Deferred[Any]:
        return self.sweep().addCallback(lambda _: result)


@define(eq=False, slots=False)
class HandOver(Service):
    """On SIGHUP the deploy server is to be restarted: it stops, and ends no game server.

    ``svc-stack`` and the unit of systemd send it for a restart, and SIGTERM for a stop.
    """

    reactor: Any
    watch: Watch

    def startService(self) -> None:
        Service.startService(self)
        if HANG_UP is not None:
            signal.signal(HANG_UP, self._hang_up)

    def _hang_up(self, *_: Any) -> None:
        self.reactor.callFromThread(self._leave)

    def _leave(self) -> None:
        if self.running:  # a second one must not end us halfway
            self.watch.hands_over = True
            self.reactor.stop()
