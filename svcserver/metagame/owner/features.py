"""The features that the dashboard shows, and the services that collect their data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.application.service import IService

from svcserver.board.quota import Quota
from svcserver.metagame.access.readlimit import READS_S, ReadLimit
from svcserver.metagame.access.staff_sessions import StaffSessions
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.tries import tries_watch
from svcserver.metagame.belongings.shop.catalogue import load as load_catalogue
from svcserver.metagame.owner.alerts import AlertActs, AlertRoutes, AlertsReply
from svcserver.metagame.owner.announcements.feature import (
    AnnouncementRoutes,
    Announcements,
    announcement_watch,
)
from svcserver.metagame.owner.backups import BackupActs, BackupRoutes, BackupsReply
from svcserver.metagame.owner.build import Build
from svcserver.metagame.owner.checklist import Checklist, ChecklistRoutes, tcp_connect
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.feed import Feed, Spots, feed_watch
from svcserver.metagame.owner.dashboard.history import health_watch
from svcserver.metagame.owner.dashboard.live import LivePages
from svcserver.metagame.owner.dashboard.overview import Engines, Overview
from svcserver.metagame.owner.dashboard.routes import (
    Admit,
    DashboardPageRoutes,
    DashboardRoutes,
    HostHistoryRoutes,
    LiveRoutes,
)
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.figures.feature import FigureRoutes, Figures, figures_watch
from svcserver.metagame.owner.gameservers import GameServerPages, LaunchRoutes
from svcserver.metagame.owner.health.feature import (
    BriefReply,
    HealthRoutes,
    loop_watch,
    metric_figures,
    show_brief,
)
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.maintenance.acts import Maintenance, maintenance_watch
from svcserver.metagame.owner.maintenance.routes import MaintenanceRoutes
from svcserver.metagame.owner.maintenance.wire import DrainEntry, show_drain
from svcserver.metagame.owner.management.acts import (
    OnlinePlayers,
    SeenPlayers,
    StatusReports,
    seen_players_watch,
)
from svcserver.metagame.owner.management.instances import DeployedInstances
from svcserver.metagame.owner.management.routes import OnlineListRoutes, ServerStatusRoutes
from svcserver.metagame.owner.management.wire import ServerStatusReply, show_status
from svcserver.metagame.owner.marks import Marks
from svcserver.metagame.owner.memory import memory_mb
from svcserver.metagame.owner.moderation.acts import ModerationActs
from svcserver.metagame.owner.moderation.routes import ModerationRoutes
from svcserver.metagame.owner.people.acts import HandlingActs, LastSeen, PeopleActs, seen_watch
from svcserver.metagame.owner.people.routes import HandlingRoutes, PeopleRoutes
from svcserver.metagame.owner.settings.acts import LiveSettings, settings_watch
from svcserver.metagame.owner.settings.catalogue import SettingsCatalogue
from svcserver.metagame.owner.settings.routes import SettingsRoutes
from svcserver.metagame.owner.settings.wire import read_settings_reply
from svcserver.metagame.owner.signin import SignInActs, SignInRoutes
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.web.eventstream import EventStreams
from svcserver.web.files import sweeping
from svcserver.web.metrics import metrics
from svcserver.web.routes import Feature

PAGE_READS = 600  # open pages read a list again every two seconds while it changes
DASHBOARD_READS = Quota.named("dashboard_reads", PAGE_READS, READS_S)


@define(kw_only=True, eq=False)
class Desk:
    """The objects from which the dashboard's pages get their data."""

    parts: Parts
    players: OnlinePlayers
    dashboard: DashboardState
    health: Health
    announcements: Announcements
    deploy: DeployClient
    about: Build
    staff: StaffSessions = field(init=False)
    maintenance: Maintenance = field(init=False)
    alerts: AlertActs = field(init=False)
    backups: BackupActs = field(init=False)
    people: PeopleActs = field(init=False)
    figures: Figures = field(init=False)
    settings: SettingsCatalogue = field(init=False)

    def __attrs_post_init__(self) -> None:
        parts, online, clock = self.parts, self.players.online, self.parts.wall_clock
        self.staff = StaffSessions(parts.ledger, parts.sessions.epochs, clock)
        self.maintenance = Maintenance(parts.board, parts.audit, self.deploy, online, clock)
        record, has_stack = self.maintenance.record, self.maintenance.has_stack
        audit = parts.audit
        self.alerts = AlertActs(record, audit.with_file, self._config, clock)
        self.backups = BackupActs(record, audit.with_file, self._config, has_stack, clock(), clock)
        self.people = PeopleActs(parts.ledger, online, parts.settings.city_map, clock)
        self.figures = Figures(parts.ledger, clock)
        self.settings = SettingsCatalogue(
            LiveSettings(parts.settings, parts.audit, parts.registration), has_stack
        )

    def _config(self) -> Path | None:
        return self.dashboard.folder

    def features(self, admit: Admit) -> Iterator[Feature]:
        """Yield the dashboard's features: pages, streams and staff operations; raises BadData."""
        reports, limit = self.reports(), ReadLimit(self.parts.board, DASHBOARD_READS)
        yield ServerStatusRoutes(reports)
        yield OnlineListRoutes(self.players)
        yield HealthRoutes(
            self.health, ReadLimit(self.parts.board), self.parts.wall_clock, reports.started_at
        )
        yield DashboardPageRoutes()
        yield MaintenanceRoutes(
            self.maintenance, has_helper=self.parts.settings.allowlist_secret is not None
        )
        yield LaunchRoutes(self.game_servers(reports))
        yield AlertRoutes(self.alerts)
        acts = DashboardActs(self.parts.ledger, self._granted)
        overview = self.overview(reports)
        yield DashboardRoutes(self.dashboard, acts, limit)
        yield LiveRoutes(
            self.pages(acts, overview, self.game_servers(reports)),
            EventStreams(self.parts.clock),
            admit,
        )
        yield HostHistoryRoutes(overview, limit)
        yield FigureRoutes(self.figures, limit)
        yield PeopleRoutes(self.people, limit)
        ways = SignInActs(self.parts.audit, self.parts.counters)
        yield HandlingRoutes(HandlingActs(self.parts.audit, self.parts.sessions), ways)
        yield ModerationRoutes(ModerationActs(self.parts.audit, self.parts.sessions), ways, limit)
        yield BackupRoutes(self.backups, ways)
        yield SignInRoutes(self.staff, ways, limit, self.parts.settings.server_name)
        yield AnnouncementRoutes(self.announcements)
        yield SettingsRoutes(self.settings)
        yield ChecklistRoutes(self.checklist(), limit)

    def checklist(self) -> Checklist:
        """Return the checklist for a new host."""
        parts = self.parts
        return Checklist(
            parts.settings,
            parts.ledger,
            lambda: self.dashboard.folder,
            lambda: len(self.alerts.channels().all),
            tcp_connect(parts.clock),
            parts.wall_clock,
        )

    def pages(self, acts: DashboardActs, overview: Overview, servers: GameServerPages) -> LivePages:
        """Return the pages that update themselves while they are open."""

        def figures() -> BriefReply:
            return show_brief(self.health, memory_mb()["rss"], self.parts.wall_clock())

        watched = figures if self.parts.settings.backend_health else None
        host = {
            "alerts": self._alerts,
            "backups": self._backups,
            "settings": lambda: read_settings_reply(self.settings),
        }
        mark = Marks(self.parts.ledger, self.people.where, host, self.parts.wall_clock).reader
        began, clock = overview.started_at, self.parts.wall_clock
        return LivePages(
            self.dashboard, overview.read_overview, acts, watched, mark, servers, began, clock
        )

    def overview(self, reports: StatusReports) -> Overview:
        """Create the source of the overview's data."""

        async def status() -> ServerStatusReply:
            return show_status(await reports.full())

        engines = Engines(self.parts.ledger, self.parts.board, self.parts.wall_clock)
        feed = Feed(self.parts.board)
        return Overview(
            engines, feed, status, self._drain, reports.started_at, self.parts.wall_clock
        )

    def game_servers(self, reports: StatusReports) -> GameServerPages:
        """Create the source of the data about game servers; raises BadData for a bad data file."""
        city = self.parts.settings.city_title
        return GameServerPages(
            self.deploy, reports.full, Titles.load(), city, self.parts.wall_clock
        )

    async def _drain(self) -> DrainEntry | None:
        drain = await self.maintenance.current()
        return None if drain is None else show_drain(drain)

    async def _alerts(self) -> AlertsReply:
        return self.alerts.read_alerts()

    async def _backups(self) -> BackupsReply:
        return self.backups.describe_backups()

    def reports(self) -> StatusReports:
        """Create the source of the server's status; raises BadData for a bad data file."""
        return StatusReports(
            self.parts.settings,
            self.about,
            self.parts.registration,
            self.players.online,
            self.parts.directory,
            self._placed(Titles.load()),
            self.parts.wall_clock,
            self.parts.wall_clock(),
        )

    def _placed(self, titles: Titles) -> DeployedInstances:
        return DeployedInstances(
            self.deploy, self.players.matches, titles, self.parts.settings.city_title
        )

    def _granted(self) -> set[str]:
        """Return all entitlements that accounts get by default or that the store sells."""
        offers = load_catalogue(repeatable=True).offers.values()
        sold = {name for offer in offers for name in offer.entitlements}
        return {*self.parts.settings.entitlements_default, *sold}

    def watches(self, reactor: Any) -> Iterator[IService]:
        """Yield the services that run periodically.

        The services update the activity feed, the times at which players were last seen, and
        maintenance mode. They end stalled downloads of backups, and report to the deploy server
        which game servers have players.
        """
        titles, city, players = Titles.load(), self.parts.settings.city_map, self.players
        spots = Spots(players.looked, self.parts.directory, titles.matchmaker_hunts, city)
        yield feed_watch(reactor, Feed(self.parts.board), spots)
        yield seen_watch(reactor, LastSeen(self.parts.ledger, self.players.online))
        yield maintenance_watch(self.maintenance, reactor)
        yield sweeping(self.backups.transfers, reactor)
        if self.deploy.address:
            seen_players = SeenPlayers(
                players.online, self._placed(titles), city, self.parts.wall_clock
            )
            yield seen_players_watch(seen_players, reactor)

    def measuring(self, reactor: Any) -> Iterator[IService]:
        """Yield the listener on METRICS_PORT and, with BACKEND_HEALTH=1, the measuring services."""
        port, on, online = (
            self.parts.settings.metrics_port,
            self.parts.settings.backend_health,
            self.players.online,
        )
        if port:
            known = metric_figures(online, self.health if on else None)
            yield metrics(reactor, "metagame", port, known, self.parts.counters)
        if on:
            yield loop_watch(reactor, self.health.loop)
            yield health_watch(
                reactor, self.dashboard.health, self.health, online, self.parts.wall_clock
            )

    def writers(self, reactor: Any) -> Iterator[IService]:
        """Yield the services that may write to the database even while they are stopping.

        So the database must be stopped after these services.
        """
        yield announcement_watch(self.announcements, reactor)
        yield tries_watch(self.parts.tries, reactor)
        yield settings_watch(self.settings.live, reactor)
        if self.parts.settings.backend_health:
            yield figures_watch(self.figures, reactor)
