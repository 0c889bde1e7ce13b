"""The composition of all features, and the signals between them. Only here all are known.

``Metagame`` makes the features, those of lower groups first, and connects them by signals;
``service.py`` runs it as a process. Tests of features use ``Metagame`` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from twisted.application.service import IService
from twisted.internet.interfaces import IReactorTime

from svcserver.board.board import Board
from svcserver.board.telling import everywhere
from svcserver.board.waiting import unwaited
from svcserver.db.ledger import Ledger
from svcserver.kernel.counters import Counters
from svcserver.kernel.datafiles import needed_by
from svcserver.kernel.signals import News, PartyChanged, Renamed
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.access.attempts import WrongAdminKeys
from svcserver.metagame.access.epochs import EpochMoved, Epochs
from svcserver.metagame.access.gate import Gate, guarded
from svcserver.metagame.access.keys import Keys
from svcserver.metagame.access.origin import Origin, is_own_address
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.access.tokens import Tokens
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.behalf import Behalf
from svcserver.metagame.accounts.data import AccountData, Allowance
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.accounts.invites import InviteActs, InviteRoutes
from svcserver.metagame.accounts.login import LoginActs, LoginRoutes
from svcserver.metagame.accounts.lookups.acts import LookupActs
from svcserver.metagame.accounts.lookups.routes import LookupRoutes
from svcserver.metagame.accounts.management.acts import AccountActs
from svcserver.metagame.accounts.management.routes import AccountManagementRoutes
from svcserver.metagame.accounts.networks import Networks
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.achievements.bounties.acts import BountyActs
from svcserver.metagame.achievements.bounties.routes import BountyRoutes
from svcserver.metagame.achievements.breadcrumbs.feature import BreadcrumbActs, BreadcrumbRoutes
from svcserver.metagame.achievements.cooldowns.feature import CooldownActs, CooldownRoutes
from svcserver.metagame.achievements.encounters.feature import EncounterActs, EncounterRoutes
from svcserver.metagame.achievements.entitlements.feature import (
    EntitlementActs,
    EntitlementRoutes,
    SqlEntitlements,
)
from svcserver.metagame.achievements.escalation import acts
from svcserver.metagame.achievements.escalation.acts import EscalationActs
from svcserver.metagame.achievements.escalation.routes import EscalationRoutes, EscalationStubRoutes
from svcserver.metagame.achievements.progression import config
from svcserver.metagame.achievements.progression.acts import (
    HuntPassActs,
    ManagementActs,
    ProgressionActs,
)
from svcserver.metagame.achievements.progression.routes import (
    HuntPassRoutes,
    ProgressionManagementRoutes,
    ProgressionRoutes,
)
from svcserver.metagame.belongings.characters.acts import CharacterActs
from svcserver.metagame.belongings.characters.routes import CharacterRoutes
from svcserver.metagame.belongings.characters.store import rename_characters
from svcserver.metagame.belongings.currency.feature import CurrencyActs, CurrencyRoutes
from svcserver.metagame.belongings.inventory.acts import InventoryActs, policy_of
from svcserver.metagame.belongings.inventory.routes import InventoryRoutes
from svcserver.metagame.belongings.loadouts.acts import LoadoutActs
from svcserver.metagame.belongings.loadouts.acts import load as load_loadout_defaults
from svcserver.metagame.belongings.loadouts.routes import LoadoutRoutes
from svcserver.metagame.belongings.savehistory.acts import SaveHistoryActs
from svcserver.metagame.belongings.savehistory.routes import SaveHistoryRoutes
from svcserver.metagame.belongings.savehistory.store import Thinning
from svcserver.metagame.belongings.shop.acts import ShopActs
from svcserver.metagame.belongings.shop.catalogue import load as load_catalogue
from svcserver.metagame.belongings.shop.routes import ClosedShopRoutes, ShopRoutes
from svcserver.metagame.owner.announcements.feature import Announcements
from svcserver.metagame.owner.bodylog import BodyLog
from svcserver.metagame.owner.build import Build
from svcserver.metagame.owner.dashboard.routes import ApiDocumentRoutes
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.features import Desk
from svcserver.metagame.owner.health.feature import Counting
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.management.acts import OnlinePlayers
from svcserver.metagame.owner.passports.acts import PassportActs
from svcserver.metagame.owner.passports.hunts import HuntLog
from svcserver.metagame.owner.passports.routes import PassportRoutes
from svcserver.metagame.owner.status import BannerRoutes, FixedReplyRoutes
from svcserver.metagame.play.deploy_client import DeployClient, LaunchKeys
from svcserver.metagame.play.gameports import GamePorts
from svcserver.metagame.play.matchmaking.acts import MatchmakingActs
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.routes import MatchmakingRoutes
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.play.presence.feature import Online, PresenceActs, PresenceRoutes
from svcserver.metagame.settings import Settings
from svcserver.metagame.social.friends.acts import FriendActs
from svcserver.metagame.social.friends.routes import FriendManagementRoutes, FriendRoutes
from svcserver.metagame.social.friends.store import Blocks
from svcserver.metagame.social.guilds.acts import GuildActs
from svcserver.metagame.social.guilds.routes import (
    GuildManagementRoutes,
    GuildRoutes,
    GuildStubRoutes,
)
from svcserver.metagame.social.guilds.store import drop_invites_between
from svcserver.metagame.social.parties.acts import PartyActs
from svcserver.metagame.social.parties.routes import PartyManagementRoutes, PartyRoutes
from svcserver.metagame.social.parties.store import LiveParties, hear
from svcserver.metagame.social.slayerlinks.acts import SlayerLinkActs
from svcserver.metagame.social.slayerlinks.routes import SlayerLinkRoutes
from svcserver.metagame.social.slayerlinks.store import cancel_between
from svcserver.web.front import FrontDoor, Observer
from svcserver.web.metrics import CountingRequests
from svcserver.web.routes import Feature

NAME = "svc-metagame"


class Metagame:
    """All features with what they share.

    ``wall_clock`` gives epoch seconds, ``clock`` timers; ``http`` is a treq client for the
    deploy server.
    """

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        board: Board,
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        http: Any,
        counters: Counters,
    ) -> None:
        self.settings, self.ledger, self.board = settings, ledger, board
        self.clock, self.wall_clock, self.counters = clock, wall_clock, counters
        self.news = News()
        self.epochs = Epochs(self.news.sessions_ended)
        self.tokens = Tokens(wall_clock, Keys.of(settings), self.epochs)
        self.acting, self.policy = Acting(wall_clock), policy_of(settings)
        allowance = Allowance(settings.account_bytes_a_day, wall_clock)
        deploy_s = settings.deploy_timeout_ms / 1000
        self.deploy = DeployClient(
            http, clock, settings.deployserver_url, deploy_s, settings.signing_private_key
        )
        self.network_of = Origin(settings, is_own_address).network
        self.game_ports = GamePorts.of(settings, http, clock, self.network_of)
        self.directory = Directory(
            ledger, wall_clock, LaunchKeys(self.deploy), by_id=settings.login == "NONE"
        )
        self.registration = Registration(ledger, board, settings.registration_mode)
        self.sessions = Sessions(ledger, board, self.epochs, wall_clock)
        self.audit = Audit(ledger, wall_clock)
        self.announcements = Announcements(self.audit, self.news.announced)
        self.data = AccountData(ledger, allowance)
        self.events = EventLog(ledger, wall_clock, allowance)
        self.matches = LiveMatches(board, settings.launch_cooldown_s)
        self.parties = LiveParties(board, (self.matches.left_party,), self.matches.of_party)
        self.guilds = GuildActs(settings, self.data, board, wall_clock, self.news.guild_changed)
        self.online = Online(board, also_heard=(hear,))
        self.about = Build.of(settings)
        self.health, self.dashboard = Health(), DashboardState()
        self.desk = self._desk()
        self._join()

    def _desk(self) -> Desk:
        return Desk(
            settings=self.settings,
            ledger=self.ledger,
            board=self.board,
            clock=self.clock,
            wall_clock=self.wall_clock,
            counters=self.counters,
            players=OnlinePlayers(self.settings, self.online, self.matches),
            directory=self.directory,
            dashboard=self.dashboard,
            health=self.health,
            audit=self.audit,
            sessions=self.sessions,
            announcements=self.announcements,
            deploy=self.deploy,
            about=self.about,
            registration=self.registration,
        )

    def _join(self) -> None:
        """Connect the signals; ``chat_ports.join`` connects the chat, where there is one."""
        news, parties = self.news, self.parties
        if self.settings.guild_create_activity_fallback:
            news.heard.connect(lambda one: unwaited(self.guilds.hear(one.account_id)))
        news.blocked.connect(lambda one: unwaited(parties.part(one.by, one.whom)))
        hunts = HuntLog(self.ledger, self.wall_clock)
        news.sent_to_hunt.connect(lambda one: unwaited(hunts.note(one)))
        news.renamed.connect(self.directory.known.hear)  # here at once, also if telling fails
        everywhere(self.board, news.renamed, Renamed, self.directory.known.hear)
        news.sessions_ended.connect(lambda one: self.directory.known.forget(one.account_id))
        minute = self.desk.figures.gathering
        self.dashboard.health.taken.connect(
            lambda one: minute.note(one.at, one.counts, one.loop, one.rss_mb, one.players)
        )
        self.board.when_missed(self.directory.known.forget_all)
        self.board.listen(EpochMoved, self.epochs.hear)
        self.board.listen(PartyChanged, news.party_changed.send)
        news.sessions_ended.connect(lambda one: unwaited(parties.leave(one.account_id)))
        news.sessions_ended.connect(lambda one: unwaited(self.matches.forget(one.account_id)))
        news.sessions_ended.connect(lambda one: unwaited(self.online.forget(one.account_id)))
        if (ports := self.game_ports) is not None:
            news.sessions_ended.connect(lambda one: ports.ended(one.account_id))

    def features(self) -> Iterator[Feature]:
        """Every feature, each after those it may use; raises BadData for a bad data file."""
        yield from self._accounts()
        yield from self._belongings()
        yield from self._achievements()
        yield from self._social()
        yield from self._play()
        yield from self._owner()

    def _accounts(self) -> Iterator[Feature]:
        settings, ledger = self.settings, self.ledger
        wall_clock, directory = self.wall_clock, self.directory
        networks = Networks(ledger, wall_clock)
        login = LoginActs(
            directory,
            self.tokens,
            self.counters,
            networks,
            directory.by_id,
            self.game_ports.heard if self.game_ports is not None else None,
        )
        yield LoginRoutes(settings, directory, login, self.network_of)
        yield LookupRoutes(settings, LookupActs(directory, settings, wall_clock))
        acts = AccountActs(
            ledger,
            self.tokens,
            self.registration,
            wall_clock,
            self.audit,
            networks,
            self.news.renamed,
            also_rename=(rename_characters,),
        )
        yield AccountManagementRoutes(acts, ReadLimit(self.board), self.network_of)
        yield InviteRoutes(InviteActs(ledger, self.audit))

    def _belongings(self) -> Iterator[Feature]:
        settings, ledger, wall_clock = self.settings, self.ledger, self.wall_clock
        thin, most = Thinning.of(settings), settings.character_max_bytes
        thinned = thin.characters if thin is not None else None
        yield CharacterRoutes(CharacterActs(self.data, wall_clock, most, thinned))
        yield InventoryRoutes(InventoryActs(self.policy, self.data, wall_clock), self.acting)
        in_inventory = settings.balance_from_inventory
        yield CurrencyRoutes(CurrencyActs.of(ledger, from_inventory=in_inventory))
        yield ClosedShopRoutes()
        entitlements = partial(SqlEntitlements, defaults=settings.entitlements_default)
        offers = load_catalogue(repeatable=settings.store_repeatable_tokens)
        yield ShopRoutes(ShopActs(offers, self.policy, entitlements, self.data, wall_clock))
        loadouts = LoadoutActs(
            load_loadout_defaults(),
            settings.real_progression,
            self.data,
            wall_clock,
            settings.loadout_max_bytes,
            thin.loadouts if thin is not None else None,
        )
        yield LoadoutRoutes(loadouts, self.acting)
        yield SaveHistoryRoutes(SaveHistoryActs(ledger, wall_clock, self.audit))

    def _achievements(self) -> Iterator[Feature]:
        settings, ledger = self.settings, self.ledger
        wall_clock, events = self.wall_clock, self.events
        tracks = config.load(settings.progression_config_dir, settings.active_hunt_pass)
        most, given, acting = settings.achievements_max, settings.entitlements_default, self.acting
        yield EntitlementRoutes(
            settings, EntitlementActs(given, most, ledger, wall_clock, events), acting
        )
        progression = ProgressionActs(settings, tracks, ledger, wall_clock, events)
        yield ProgressionRoutes(settings, tracks, progression, acting)
        yield HuntPassRoutes(settings, tracks, HuntPassActs(tracks, ledger, events), acting)
        staff = ManagementActs(settings, tracks, ledger, wall_clock, events)
        yield ProgressionManagementRoutes(staff, acting)
        yield EscalationStubRoutes()
        seasons = EscalationActs(acts.load(), settings.escalation_strict, ledger, events)
        yield EscalationRoutes(settings, seasons, acting)
        yield CooldownRoutes(settings, CooldownActs(ledger, wall_clock, events, most), acting)
        bounties = BountyActs(ledger, wall_clock, events, settings.bounties_max_bytes)
        yield BountyRoutes(settings, bounties, acting)
        yield EncounterRoutes(EncounterActs(self.data, most))
        yield BreadcrumbRoutes(BreadcrumbActs(self.data, settings.breadcrumbs_max_bytes))

    def _social(self) -> Iterator[Feature]:
        ledger, wall_clock, news = self.ledger, self.wall_clock, self.news
        blocks = Blocks(ledger)
        behalf = Behalf(self.directory, self.audit, self.desk.tries)
        parties = PartyActs(self.parties, self.directory, blocks, news.heard)
        yield PartyRoutes(self.settings, parties)
        yield PartyManagementRoutes(behalf, parties)
        friends = FriendActs(
            self.data,
            self.board,
            wall_clock,
            news.blocked,
            news.unfriended,
            news.friend_accepted,
            also_block=(drop_invites_between, cancel_between),
            also_unfriend=(cancel_between,),
        )
        yield FriendRoutes(friends)
        yield FriendManagementRoutes(behalf, friends)
        yield GuildRoutes(self.guilds, self.acting)
        yield GuildStubRoutes()
        yield GuildManagementRoutes(behalf, self.guilds, self.audit)
        yield SlayerLinkRoutes(SlayerLinkActs(self.data, self.board, wall_clock))

    def _play(self) -> Iterator[Feature]:
        launching = Launching(self.matches, self.deploy, self.clock)
        came = self.game_ports.came if self.game_ports is not None else None
        yield PresenceRoutes(PresenceActs(self.online, self.news.heard), came)
        news = self.news
        acts = MatchmakingActs(self.matches, launching, self.parties, news.heard, news.sent_to_hunt)
        yield MatchmakingRoutes(self.settings, acts)

    def _owner(self) -> Iterator[Feature]:
        settings, wall_clock = self.settings, self.wall_clock
        yield BannerRoutes.of(settings, self.about, self.announcements.current, wall_clock)
        yield FixedReplyRoutes()
        yield from self.desk.features()
        signing = self.tokens.keys.private
        acts = PassportActs.of(settings, self.data, signing, self.sessions, wall_clock)
        yield PassportRoutes.of(self.board, acts)

    def front_door(self, *observers: Observer) -> FrontDoor:
        """The front door with all rows; a broken data file ends the start."""
        settings, observers = self.settings, (*observers, CountingRequests(self.counters))
        if settings.backend_health:
            observers = (*observers, Counting(self.health.requests, self.wall_clock))
        if settings.log_bodies:
            observers = (*observers, BodyLog.of(settings, self.wall_clock).check())
        attempts, desk = WrongAdminKeys(self.board, self.counters), self.desk
        gate = Gate.of(settings, self.tokens, self.directory, attempts, desk.staff, desk.tries)
        door = guarded(gate, observers)
        with needed_by(NAME):
            features = list(self.features())
        return door.mount(*features, ApiDocumentRoutes(lambda: door.rows, self.about.version))

    def chat(self, environ: dict[str, str], reactor: Any) -> IService | None:
        """The chat, connected to the game's signals; None without CHAT=1."""
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
