"""The simulated host: every service's real code, each in its own simulated process.

The simulation has no sockets and no threads, because the order of events must depend only on the
seed. There is no TLS between relay and gateway, because OpenSSL draws its own random numbers;
``tests/relay`` and ``tests/live`` test TLS. The simulation also leaves out the log file and the
programs that change a firewall.
"""

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, evolve, field
from twisted.application.service import MultiService, Service
from twisted.internet.defer import maybeDeferred

from simulation.clock import World
from simulation.gameservers import Notes, Servers
from simulation.ledger import Disk, SimLedger
from simulation.machines import GAME_SERVER_MB, EngineLine, SimSwarm
from simulation.network import Network, Route
from simulation.process import Process
from simulation.valkey import ADDRESS as ENGINE
from simulation.valkey import PORT as VALKEY
from simulation.valkey import SimValkey
from simulation.wiring import (
    FakeFirewall,
    MemoryState,
    NoAudit,
    PlainListener,
    game_files,
    http_client,
    signing_keys,
)
from svcserver.allowlist.entries import Entries
from svcserver.allowlist.helper import Helper
from svcserver.allowlist.routes import AllowlistHandler
from svcserver.allowlist.scripts import PortRange
from svcserver.allowlist.service import HelperService
from svcserver.board.address import EngineAddress
from svcserver.board.engine import BoardEngine
from svcserver.board.memory import MemoryBoard
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.board.valkey import ValkeyBoard
from svcserver.content import service as content
from svcserver.content import settings as content_settings
from svcserver.content.service import Sender
from svcserver.deploy import service as deploy
from svcserver.deploy import settings as deploy_settings
from svcserver.deploy.freeze_watch import FreezeDetector, freeze_watch
from svcserver.deploy.launch_history import EndedMatches, LaunchHistory
from svcserver.deploy.owner_actions import OwnerActions
from svcserver.deploy.supervisor import Supervisor
from svcserver.deploy.swarm import SwarmEngine
from svcserver.edge.upstream import plain
from svcserver.gateway import service as gateway
from svcserver.gateway import settings as gateway_settings
from svcserver.kernel.counters import Counters
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.monotonic import MonotonicClock
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import load
from svcserver.metagame.accounts.sessions import session_watch
from svcserver.metagame.accounts.store import add_game_server_key
from svcserver.metagame.belongings.housekeeping import forgetting, housekeeping
from svcserver.metagame.composition import Metagame
from svcserver.metagame.settings import MetagameSettings
from svcserver.relay.relaying import RelayService, Target
from svcserver.web.files import Transfers, sweeping
from svcserver.web.serving import Listening, OrderedServices
from svcserver.web.site import HttpFactory

GATEWAY_SECRET = "simulated-gateway-secret-0123456789"  # noqa: S105 - of no real host
ALLOWLIST_SECRET = "simulated-allowlist-secret-012345678"  # noqa: S105
GAME_SERVER_KEY = "0123456789abcdef" * 3
SAVES_KEPT = 4  # the newest of each character; few, so that older ones are thinned
PUBLIC = "203.0.113.1"  # the host's address
CITY_MAP = "/Game/Maps/city/city_persistent"
METAGAME, DEPLOY, CONTENT, ALLOWLIST, CHAT, EDGE = 61000, 61001, 61002, 61005, 61099, 443
WORKERS = {"metagame": (METAGAME, CHAT), "metagame-2": (61010, 61098)}
FIRST_PORT, LAST_PORT = 8760, 8777
FEW_PORTS = 8770  # on a swarm, so that ports are often used again
STOPPED_S = 20.0  # a process that has not stopped by then is killed
RESTARTED_S = 1.0


def metagame_environ(name: str = "metagame") -> dict[str, str]:
    """Return the environment variables of the metagame with this name."""
    private, public = signing_keys()
    port, chat_port = WORKERS[name]
    return {
        "PORT": str(port),
        "NODE_ENV": "production",
        "AUTH_MODE": "APIKEY",
        "AUTH_SIGNING_PRIVKEY_B64": private,
        "AUTH_SIGNING_PUBKEY_B64": public,
        "REGISTRATION_MODE": "INVITECODE",
        "GATEWAY_SECRET": GATEWAY_SECRET,
        "MATCHMAKING_MODE": "DEPLOYSERVER",
        "MATCHMAKING_CANCEL": "1",
        "DEPLOYSERVER_URL": f"127.0.0.1:{DEPLOY}",
        "QOS_TARGET_URL": "http://127.0.0.1:61000/QoS",
        "CITY_MAP": CITY_MAP,
        "CHAT": "1",
        "CHAT_PORT": str(chat_port),
        "CHAT_PRESENCE": "1",
        "BACKEND_HEALTH": "0",
        "STORE": "free",
        "GUILDS": "1",
        "INVENTORY_MAX_ITEMS": "1000000",  # room for the marker items of a month of transactions
        "INVENTORY_MAX_BYTES": "1000000000",
        "SAVE_HISTORY_KEEP": f"{SAVES_KEPT}",
        "SERVER_VERSION": "simulated",  # the same bytes from every installation
        "LOG_REQUESTS": "0",
    }


@define(eq=False)
class SimHost:
    """All processes of the host, and the data that outlives them."""

    world: World
    network: Network
    rehearsed: bool = False  # the board runs all work twice
    shared: bool = False  # two metagames, whose board is the model of Valkey
    on_swarm: bool = False  # game servers run on the machines of a Docker Swarm
    environ: dict[str, str] = field(factory=dict)  # more of the metagame's settings
    disk: Disk = field(init=False)
    firewall: FakeFirewall = field(factory=FakeFirewall, init=False)
    state: MemoryState = field(factory=MemoryState, init=False)
    servers: Servers = field(init=False)
    notes: Any = field(init=False)  # of game servers, on the deploy server's disk
    ended_matches: EndedMatches = field(factory=EndedMatches, init=False)  # likewise
    processes: dict[str, Process] = field(factory=dict, init=False)
    supervisor: Supervisor = field(init=False)
    helper: Helper = field(init=False)
    valkey: SimValkey | None = None
    chats: dict[str, Any] = field(factory=dict)  # by metagame
    board: MemoryBoard | None = None  # of the only metagame
    swarm: SimSwarm | None = None
    deaths: int = 0
    stops: int = 0  # services that stopped in time on request

    def __attrs_post_init__(self) -> None:
        self.disk = Disk(self.world)
        self.servers = Servers(self.world, self.firewall.lets_in)
        self.notes = Notes(self.servers)
        self.servers.end_sessions = lambda account, at: self.disk.raw.execute(
            "UPDATE accounts SET tokens_not_before = max(tokens_not_before, ?) WHERE id = ?",
            (at, account),
        )
        if self.on_swarm:
            self.swarm = SimSwarm(world=self.world, servers=self.servers, address=PUBLIC)
        self.network.name(PUBLIC, "host")
        raw = self.disk.engine.connect()
        with raw.begin():
            add_game_server_key(raw, GAME_SERVER_KEY)
        raw.close()

    def start(self) -> None:
        """Start every service, and a live-state engine if there are several metagames."""
        if self.shared:
            self.valkey = SimValkey(self.world, self.network)
            self.valkey.start()
        if self.swarm is not None:
            self.swarm.tick()
        for name in self._starters():
            self.boot(name)

    @property
    def metagames(self) -> list[str]:
        return list(WORKERS) if self.shared else ["metagame"]

    def _starters(self) -> dict[str, Callable[[Process], Service]]:
        return {
            "deploy": self._deploy,
            **dict.fromkeys(self.metagames, self._metagame),
            "content": self._content,
            "allowlist": self._allowlist,
            "gateway": self._gateway,
        }

    def boot(self, name: str) -> None:
        """Start one service, as ``svc-stack`` does after the service has died."""
        process = Process(self.world, self.network, name, address=PUBLIC)
        self.processes[name] = process
        process.program = made = self._starters()[name](process)
        made.privilegedStartService()
        made.startService()

    def kill(self, name: str, back_in_s: float = 2.0) -> None:
        """Kill a service as a crash would; the simulated stack restarts the service."""
        process = self.processes[name]
        if not process.dead:
            process.die()
        self.deaths += 1
        self.world.later(back_in_s, lambda: self._again(name))

    def stop(self, name: str, back_in_s: float, back: Callable[[], None] = lambda: None) -> None:
        """Stop a service and start it again, as ``svc-stack`` does; then call ``back``.

        A service that does not stop in time is killed.
        """
        process = self.processes[name]
        if process.dead:
            return

        def end(_: Any = None, stopped: int = 1) -> None:
            if not process.dead:
                self.stops += stopped
                process.die()
                self.world.later(back_in_s, again)

        def again() -> None:
            self._again(name)
            back()

        program: Any = process.program
        maybeDeferred(program.stopService).addBoth(end)
        self.world.later(STOPPED_S, lambda: end(stopped=0))

    def _again(self, name: str) -> None:
        if self.processes[name].dead:
            self.boot(name)

    # -- the services ------------------------------------------------------------

    def _metagame(self, reactor: Process) -> Service:
        """Return the metagame, created as in ``metagame.service.makeService``."""
        environ = metagame_environ(reactor.name) | self.environ
        settings = load(MetagameSettings, environ)[0]
        ledger = SimLedger(self.disk, reactor)
        wall_clock = MonotonicClock().read_epoch
        board, connections = self._board(reactor, wall_clock)
        game = Metagame(
            settings, ledger, board, reactor, wall_clock, http_client(reactor), Counters()
        )
        with self.disk.engine.connect() as tx:
            game.sessions.load(tx)
        factory = HttpFactory(game.front_door(), reactor, game.counters, proxy_headers=(GATEWAY,))
        top, answering = MultiService(), OrderedServices()
        for part in (
            *connections,
            ledger,
            housekeeping(ledger, reactor, game.wall_clock),
            forgetting(ledger, reactor, game.wall_clock),
            session_watch(game.sessions, reactor),
            Listening(reactor, "metagame", settings.port, settings.bind_host, factory),
        ):
            part.setServiceParent(answering)
        answering.setServiceParent(top)
        chat: Any = game.chat(environ, reactor)
        self.chats[reactor.name] = chat
        chat.setServiceParent(top)
        return top

    def _board(
        self, reactor: Process, wall_clock: Callable[[], float]
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return a metagame's live-state board, and the services that the board needs."""
        if not self.shared:
            self.board = (RehearsedBoard if self.rehearsed else MemoryBoard)(wall_clock)
            return self.board, ()
        engine = BoardEngine(reactor, EngineAddress(ENGINE, VALKEY))
        return ValkeyBoard(engine), (engine,)

    def _deploy(self, reactor: Process) -> Service:
        """Return the deploy server, which starts simulated game servers."""
        environ = {
            "PORT": str(DEPLOY),
            "MY_IP": PUBLIC,
            "PORT_RANGE_BEGIN": str(FIRST_PORT),
            "PORT_RANGE_END": str(LAST_PORT),
            "GAMESERVER_BINARY_PATH": "simulated",
            "GAMESERVER_LAUNCH_KEYS": "1",
            "GAMESERVER_MEMORY_GUARD": "0",
            "CITY_MAP": CITY_MAP,
        }
        if self.swarm is not None:
            environ |= {"GAMESERVER_ENGINE": "swarm", "GAMESERVER_STARTUP_MB": f"{GAME_SERVER_MB}"}
            environ["PORT_RANGE_BEGIN"] = f"{FEW_PORTS}"
        settings = load(deploy_settings.DeploySettings, environ)[0]
        supervisor = deploy.supervise(settings, reactor, {})
        self.servers.parent, self.supervisor = reactor, supervisor
        supervisor.program = evolve(supervisor.program, output=None)
        supervisor.history = LaunchHistory()
        if isinstance(supervisor.engine, SwarmEngine) and self.swarm is not None:
            return self._deploy_on_swarm(reactor, settings, self.swarm, supervisor.engine)
        supervisor.engine, supervisor.is_bound = self.servers, self.servers.is_bound
        supervisor.saved = self.notes

        def tidy() -> None:
            self.servers.end_left_over(supervisor.adopt("ours", self.servers.take))

        watch = deploy.Watch(reactor, supervisor, deploy._at_boot(settings), tidy)
        freezes, end = FreezeDetector(settings.frozen_s), OwnerActions(supervisor).end_frozen
        frozen = freeze_watch(
            reactor,
            freezes,
            supervisor.fleet,
            end,
            lambda server: {server.port},
            self.servers.unread,
            self.servers.ping,
        )
        return self._serve_deploy(reactor, watch, frozen)

    def _deploy_on_swarm(
        self, reactor: Process, settings: Any, swarm: SimSwarm, engine: SwarmEngine
    ) -> Service:
        """Return the deploy server, whose engine starts services of the simulated swarm."""
        api: Any = EngineLine(swarm, reactor)
        engine.api, engine.ended, swarm.supervisor = api, self.ended_matches, self.supervisor
        swarm.disturbances += 1
        self.supervisor.is_bound = engine.uses
        at_boot = deploy._at_boot(settings)
        watch = deploy.Watch(reactor, self.supervisor, at_boot, engine.begin)
        return self._serve_deploy(reactor, watch)

    def _serve_deploy(self, reactor: Process, *parts: Service) -> Service:
        door = deploy.front_door(self.supervisor, secrets=lambda: [signing_keys()[0]])
        factory = HttpFactory(door, reactor, proxy_headers=(GATEWAY,))
        top = OrderedServices()
        Listening(reactor, "deploy", DEPLOY, "127.0.0.1", factory).setServiceParent(top)
        for part in parts:
            part.setServiceParent(top)
        return top

    def _content(self, reactor: Process) -> Service:
        """Return the content server, with two small files."""
        files = game_files()
        environ = {
            "PORT": str(CONTENT),
            "METAGAME_URL": f"http://127.0.0.1:{METAGAME}",
            "GATEWAY_SECRET": GATEWAY_SECRET,
            "CONTENT_GAME_DIR": str(files.folder),
        }
        settings = load(content_settings.ContentSettings, environ)[0]
        handler = content.make_handler(settings, files, http_client(reactor), reactor)
        transfers = Transfers()
        factory = HttpFactory(Sender(handler, transfers), reactor, proxy_headers=(GATEWAY,))
        top = MultiService()
        sweeping(transfers, reactor).setServiceParent(top)
        Listening(reactor, "content", CONTENT, "127.0.0.1", factory).setServiceParent(top)
        return top

    def _allowlist(self, reactor: Process) -> Service:
        """Return the allowlist helper, with a simulated firewall."""
        audit: Any = NoAudit()
        state: Any = self.state
        self.helper = Helper(
            reactor,
            MonotonicClock().read_epoch,
            Entries(600.0, 256),
            self.firewall,
            PortRange(FIRST_PORT, LAST_PORT),
            audit,
            state,
        )
        handler = AllowlistHandler(self.helper, Secret(ALLOWLIST_SECRET))
        factory = HttpFactory(handler, reactor, proxy_headers=(GATEWAY,))
        top = MultiService()
        HelperService(self.helper).setServiceParent(top)
        Listening(reactor, "allowlist", ALLOWLIST, "127.0.0.1", factory).setServiceParent(top)
        return top

    def _gateway(self, reactor: Process) -> Service:
        """Return the gateway, created as in ``gateway.service.makeService`` but without TLS."""
        environ = {
            "GATEWAY_CERT": "unused",
            "GATEWAY_KEY": "unused",
            "GATEWAY_SECRET": GATEWAY_SECRET,
            "ALLOWLIST_SECRET": ALLOWLIST_SECRET,
        }
        ports = [WORKERS[name] for name in self.metagames]
        environ["GATEWAY_METAGAME_URL"] = _urls(port for port, _ in ports)
        environ["GATEWAY_WS_URL"] = _urls(chat_port for _, chat_port in ports)
        settings = load(gateway_settings.GatewaySettings, environ)[0]
        allowlist = load(gateway_settings.AllowlistClientSettings, environ)[0]
        feed = gateway.make_feed(
            allowlist, settings.refresh_s, http_client(reactor, 2.0), reactor, Counters()
        )
        upstreams = gateway.upstreams_of(settings, reactor)
        policy = gateway.make_policy(
            settings, feed, reactor, upstreams, say=lambda *line: None, counters=Counters()
        )
        top = MultiService()
        PlainListener(reactor, policy, settings, upstreams).setServiceParent(top)
        upstreams.watch.setServiceParent(top)
        return top


def _urls(ports: Iterable[int]) -> str:
    return ",".join(f"http://127.0.0.1:{port}" for port in ports)


def player_machine(world: World, network: Network, number: int) -> Process:
    """Return the process of a player's relay, which runs on the player's own PC."""
    address = f"198.51.{100 + number // 200}.{1 + number % 200}"
    machine = f"pc-{number}"
    if (machine, "host") not in network.routes:
        network.name(address, machine)
        far = world.weather.random()
        network.routes[machine, "host"] = Route(0.005 + 0.08 * far, 0.002 + 0.02 * far)
    network.off.discard(machine)
    process = Process(world, network, machine, machine, address)
    target = Target(PUBLIC, EDGE, "0" * 64)
    relay = RelayService(process, target, port=METAGAME, bind=address, say=lambda line: None)
    relay.pool.connect = plain(process, PUBLIC, EDGE)
    process.program = relay
    relay.startService()
    return process
