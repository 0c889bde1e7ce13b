"""The owner's desk: the features behind the dashboard's pages, and what watches for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import field, frozen
from twisted.application.service import IService
from twisted.internet.interfaces import IReactorTime

from svcserver.board.board import Board
from svcserver.db.ledger import Ledger
from svcserver.metagame.access.readlimit import DASHBOARD_READS, ReadLimit
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.belongings.shop.catalogue import load as load_catalogue
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.feed import Spots, feed_watch
from svcserver.metagame.owner.dashboard.live import LiveRoutes
from svcserver.metagame.owner.dashboard.pages import DashboardPageRoutes
from svcserver.metagame.owner.dashboard.routes import DashboardRoutes
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.figures.acts import Figures, figures_watch
from svcserver.metagame.owner.figures.routes import FigureRoutes
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.live import LivePages
from svcserver.metagame.owner.maintenance.acts import Maintenance, maintenance_watch
from svcserver.metagame.owner.maintenance.routes import MaintenanceRoutes
from svcserver.metagame.owner.management.acts import OnlinePlayers, StatusReports
from svcserver.metagame.owner.management.heard import HeardPlayers, heard_watch
from svcserver.metagame.owner.management.instances import DeployedInstances
from svcserver.metagame.owner.people.acts import PeopleActs, Seen, seen_watch
from svcserver.metagame.owner.people.routes import PeopleRoutes
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.settings import Settings
from svcserver.web.eventstream import EventStreams
from svcserver.web.routes import Feature


@frozen
class Desk:
    """What the dashboard's pages are made of; ``now`` gives epoch seconds."""

    settings: Settings
    ledger: Ledger
    board: Board
    clock: IReactorTime
    now: Callable[[], float]
    players: OnlinePlayers
    directory: Directory
    shown: DashboardState
    health: Health
    audit: Audit
    deploy: DeployClient
    maintenance: Maintenance = field(init=False)
    figures: Figures = field(init=False)

    @maintenance.default
    def _maintenance(self) -> Maintenance:
        return Maintenance(self.board, self.audit, self.deploy, self.players.online, self.now)

    @figures.default
    def _figures(self) -> Figures:
        made = Figures(self.ledger, self.now)
        self.shown.health.heard.append(
            lambda one: made.gathering.note(one.at, one.counts, one.loop, one.rss_mb, one.players)
        )
        return made

    def features(self, reports: StatusReports) -> Iterator[Feature]:
        """The page, its reads, its streams, and people."""
        limit = ReadLimit(self.board, DASHBOARD_READS)
        yield DashboardPageRoutes()
        yield MaintenanceRoutes(self.maintenance)
        acts = DashboardActs(self.ledger, self._given)
        yield DashboardRoutes(self.shown, acts, limit)
        watched = self.health if self.settings.backend_health else None
        pages = LivePages(self.shown, acts, reports, watched, self.now)
        yield LiveRoutes(pages, EventStreams(self.clock))
        yield FigureRoutes(self.figures, limit)
        online, city = self.players.online, self.settings.city_map
        yield PeopleRoutes(PeopleActs(self.ledger, online, city, self.now), limit)

    def _given(self) -> set[str]:
        """Entitlements that every account has, or that the store sells."""
        offers = load_catalogue(repeatable=True).offers.values()
        sold = {name for offer in offers for name in offer.entitlements}
        return {*self.settings.entitlements_default, *sold}

    def watches(self, reactor: Any) -> Iterator[IService]:
        """What looks at players from time to time."""
        titles, city, players = Titles.load(), self.settings.city_map, self.players
        spots = Spots(players.all, self.directory, titles.matchmaker_hunts, city)
        yield feed_watch(reactor, self.shown.feed, spots, self.now)
        yield seen_watch(reactor, Seen(self.ledger, self.players.online))
        yield maintenance_watch(self.maintenance, reactor)
        if self.deploy.address:
            title = self.settings.city_title
            placed = DeployedInstances(self.deploy, players.matches, titles, title)
            heard = HeardPlayers(players.online, placed, city, self.now)
            yield heard_watch(heard, reactor)

    def writers(self, reactor: Any) -> Iterator[IService]:
        """What still writes at its stop, so it stops before the database."""
        if self.settings.backend_health:
            yield figures_watch(self.figures, reactor)
