"""The composition of all features, and the signals between them.

Each feature has one factory. The factory's arguments are the ``Parts`` and the features that the
new feature uses. ``Metagame`` makes all features, dependencies first, and connects them by signals.
``service.py`` runs ``Metagame`` as a process; tests of features use ``Metagame`` directly.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from twisted.application.service import IService
from twisted.internet.interfaces import IReactorTime

from svcserver.board.board import Board
from svcserver.board.delivery import share_signal
from svcserver.board.waiting import log_failure
from svcserver.db.ledger import Ledger
from svcserver.kernel.counters import Counters
from svcserver.kernel.datafiles import needed_by
from svcserver.kernel.signals import PartyChanged, Renamed
from svcserver.metagame.access.attempts import WrongAdminKeys
from svcserver.metagame.access.epochs import EpochMoved
from svcserver.metagame.access.gate import Gate, guarded
from svcserver.metagame.accounts.invites import invites
from svcserver.metagame.accounts.login import login
from svcserver.metagame.accounts.lookups.feature import lookups
from svcserver.metagame.accounts.management.routes import management
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.bounties.feature import bounties
from svcserver.metagame.achievements.breadcrumbs.feature import breadcrumbs
from svcserver.metagame.achievements.cooldowns.feature import cooldowns
from svcserver.metagame.achievements.encounters.feature import encounters
from svcserver.metagame.achievements.entitlements.feature import SqlEntitlements, entitlements
from svcserver.metagame.achievements.escalation.feature import escalation
from svcserver.metagame.achievements.progression.routes import progression
from svcserver.metagame.belongings.characters.routes import characters
from svcserver.metagame.belongings.characters.store import rename_characters
from svcserver.metagame.belongings.currency.feature import currency
from svcserver.metagame.belongings.inventory.routes import inventory
from svcserver.metagame.belongings.loadouts.routes import loadouts
from svcserver.metagame.belongings.savehistory.feature import Thinning, savehistory
from svcserver.metagame.belongings.shop.routes import shop
from svcserver.metagame.owner.announcements.feature import Announcements
from svcserver.metagame.owner.bodylog import BodyLog
from svcserver.metagame.owner.build import Build
from svcserver.metagame.owner.dashboard.routes import ApiDocumentRoutes
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.features import Desk
from svcserver.metagame.owner.health.feature import Counting
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.management.acts import OnlinePlayers
from svcserver.metagame.owner.passports.hunts import HuntLog
from svcserver.metagame.owner.passports.routes import passports
from svcserver.metagame.owner.status import status
from svcserver.metagame.play.deploy_client import DeployClient, LaunchKeys
from svcserver.metagame.play.gameports import GamePorts
from svcserver.metagame.play.matches import Server
from svcserver.metagame.play.matchmaking.routes import matchmaking
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.play.presence.feature import Online, presence
from svcserver.metagame.settings import MetagameSettings
from svcserver.metagame.social.friends.routes import friends
from svcserver.metagame.social.guilds.acts import GuildActs
from svcserver.metagame.social.guilds.routes import guilds
from svcserver.metagame.social.guilds.store import drop_invites_between
from svcserver.metagame.social.parties.routes import parties
from svcserver.metagame.social.parties.store import LiveParties, mark_seen
from svcserver.metagame.social.slayerlinks.routes import slayerlinks
from svcserver.metagame.social.slayerlinks.store import cancel_between
from svcserver.web.front import FrontDoor, Observer
from svcserver.web.metrics import CountingRequests
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Feature

NAME = "svc-metagame"


class Metagame(Parts):
    """All features of the game; ``http`` is a treq client."""

    def __init__(
        self,
        settings: MetagameSettings,
        ledger: Ledger,
        board: Board,
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        http: Any,
        counters: Counters,
    ) -> None:
        deploy_s = settings.deploy_timeout_ms / 1000
        self.deploy = DeployClient(
            http, clock, settings.deployserver_url, deploy_s, settings.signing_private_key
        )
        launched = LaunchKeys(self.deploy)
        super().__init__(settings, ledger, board, clock, wall_clock, counters, launched)
        self.game_ports = GamePorts.if_enabled(settings, http, clock, self.network_of)
        self.announcements = Announcements(self.audit, self.news.announced)
        self.matches = LiveMatches(board, lambda: settings.launch_cooldown_s)
        self.parties = LiveParties(board, (self.matches.left_party,), self.matches.of_party)
        self.guilds = GuildActs(settings, self.data, board, wall_clock, self.news.guild_changed)
        self.online = Online(board, also_heard=(mark_seen,))
        self.about = Build.from_settings(settings)
        self.health, self.dashboard = Health(), DashboardState()
        self.desk = Desk(
            parts=self,
            players=OnlinePlayers(settings, self.online, self.matches),
            dashboard=self.dashboard,
            health=self.health,
            announcements=self.announcements,
            deploy=self.deploy,
            about=self.about,
        )
        attempts, staff = WrongAdminKeys(board, counters), self.desk.staff
        # opens a node's game ports for a player's address; None without a fleet
        self.open_node: Callable[[str, Server], Awaitable[None]] | None = None
        self.mounted: list[Feature] = []  # the features that ``front_door`` has mounted
        self.gate = Gate.for_service(
            settings, self.tokens, self.directory, attempts, staff, self.tries
        )
        self._join()

    def _join(self) -> None:
        """Connect the features' signals; ``chat_ports.join`` connects the chat, if chat is on."""
        news, known, ended = self.news, self.directory.known, self.news.sessions_ended
        if self.settings.guild_create_activity_fallback:
            news.active.connect(lambda event: log_failure(self.guilds.mark_seen(event.account_id)))
        news.blocked.connect(lambda event: log_failure(self.parties.part(event.by, event.whom)))
        hunts = HuntLog(self.ledger, self.wall_clock)
        news.sent_to_hunt.connect(lambda event: log_failure(hunts.note(event)))
        news.renamed.connect(known.forget_renamed)  # in this process at once, even if sharing fails
        share_signal(self.board, news.renamed, Renamed, known.forget_renamed)
        ended.connect(lambda event: known.forget(event.account_id))
        note = self.desk.figures.gathering.note
        self.dashboard.health.taken.connect(
            lambda taken: note(taken.at, taken.counts, taken.loop, taken.rss_mb, taken.players)
        )
        self.board.when_missed(known.forget_all)
        self.board.listen(EpochMoved, self.epochs.on_moved)
        self.board.listen(PartyChanged, news.party_changed.send)
        ended.connect(lambda event: log_failure(self.parties.leave(event.account_id)))
        ended.connect(lambda event: log_failure(self.matches.forget(event.account_id)))
        ended.connect(lambda event: log_failure(self.online.forget(event.account_id)))
        if (ports := self.game_ports) is not None:
            ended.connect(lambda event: ports.close(event.account_id))

    def features(self) -> Iterator[Feature]:
        """Yield all features, dependencies first; raises BadData."""
        settings, ports = self.settings, self.game_ports
        yield from login(self, ports.note_network if ports is not None else None)
        yield from lookups(self)
        yield from management(self, rename_characters)
        yield from invites(self)
        thin = Thinning.for_retention(settings)
        yield from characters(self, thin.characters if thin is not None else None)
        yield from inventory(self)
        yield from currency(self)
        yield from shop(self, partial(SqlEntitlements, defaults=settings.entitlements_default))
        yield from loadouts(self, thin.loadouts if thin is not None else None)
        yield from savehistory(self)
        yield from entitlements(self)
        yield from progression(self)
        yield from escalation(self)
        yield from cooldowns(self)
        yield from bounties(self)
        yield from encounters(self)
        yield from breadcrumbs(self)
        yield from parties(self, self.parties)
        between = (drop_invites_between, cancel_between)
        yield from friends(self, also_block=between, also_unfriend=(cancel_between,))
        yield from guilds(self, self.guilds)
        yield from slayerlinks(self)
        yield from presence(self, self.online, ports.note_request if ports is not None else None)
        yield from matchmaking(self, self.matches, self.parties, self.deploy, self._open_ports)
        yield from status(self, self.about, self.announcements.current)
        yield from self.desk.features(self.gate.admit)
        yield from passports(self)

    async def _open_ports(self, request: HttpRequest, server: Server) -> None:
        """Open the UDP ports for the player on the node (machine) that runs the game server."""
        if self.open_node is not None:
            await self.open_node(self.gate.origin.player_address(request), server)

    def front_door(self, *observers: Observer) -> FrontDoor:
        """Return the HTTP entry point with all routes; exits if a data file is invalid."""
        settings, observers = self.settings, (*observers, CountingRequests(self.counters))
        if settings.backend_health:
            observers = (*observers, Counting(self.health.requests, self.wall_clock))
        if settings.log_bodies:
            observers = (*observers, BodyLog.for_log_file(settings, self.wall_clock).check())
        door = guarded(self.gate, settings, observers, self.gate.refused)
        door.unmatched = self.gate.unmatched
        with needed_by(NAME):
            self.mounted = list(self.features())
        document = ApiDocumentRoutes(lambda: door.rows, self.about.version)
        return door.mount(*self.mounted, document)

    def chat(self, environ: dict[str, str], reactor: Any) -> IService | None:
        """Return the chat service, connected to the game's signals, or None if chat is off."""
        if not self.settings.chat:
            return None
        # XMPP and WebSocket take a fifth of a second to import
        from svcserver.metagame.chat_ports import chat_game, chat_part

        asks = chat_game(
            self.tokens, self.ledger, self.parties, self.wall_clock, self.settings.guilds
        )
        return chat_part(
            asks, self.board, self.news, self.dashboard, self.counters, environ, reactor
        )
