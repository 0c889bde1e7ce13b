"""The table of contents of the game: every feature, in the order in which one may use another."""

from __future__ import annotations

from svcserver.kernel.signals import SessionsEnded
from svcserver.metagame.accounts.invites import Invites
from svcserver.metagame.accounts.login import Login
from svcserver.metagame.accounts.lookups import Lookups
from svcserver.metagame.accounts.management import AccountManagement
from svcserver.metagame.achievements.features import features as achievements
from svcserver.metagame.belongings.characters.routes import Characters
from svcserver.metagame.belongings.characters.store import rename_characters
from svcserver.metagame.belongings.features import features as belongings
from svcserver.metagame.belongings.features import thinning_of
from svcserver.metagame.owner.dashboard.pages import DashboardPages
from svcserver.metagame.owner.dashboard.routes import Dashboard
from svcserver.metagame.owner.health.routes import BackendHealth
from svcserver.metagame.owner.health.watching import ReadLimit
from svcserver.metagame.owner.management.online_list import OnlineList
from svcserver.metagame.owner.management.server_status import ServerStatus
from svcserver.metagame.owner.status.banner import Banner
from svcserver.metagame.owner.status.build import Build
from svcserver.metagame.owner.status.fixed import FixedReplies
from svcserver.metagame.parts import Parts
from svcserver.metagame.play.matchmaking.deploy_client import DeployClient
from svcserver.metagame.play.matchmaking.instances import DeployedInstances, Titles
from svcserver.metagame.play.matchmaking.launches import Launches
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.routes import Matchmaking
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from svcserver.metagame.play.presence.routes import Presence
from svcserver.metagame.social.features import features as social
from svcserver.web.routes import Feature


def end_places(parts: Parts, matchmaker: Matchmaker, news: SessionsEnded) -> None:
    """Whose sessions have ended is in no party, waits for no hunt and is not online."""
    parts.parties.leave(news.account_id, parts.now())
    matchmaker.forget(news.account_id)
    parts.online.forget(news.account_id)


def build(parts: Parts) -> list[Feature]:
    """Make every feature of its parts."""
    settings, ledger, now = parts.settings, parts.ledger, parts.now
    about = Build.of(settings)
    thinning = thinning_of(settings)
    matchmaker = Matchmaker(Launches(settings.launch_cooldown_s))
    reads = ReadLimit(now)
    timeout_s = settings.deploy_timeout_ms / 1000
    deploy = DeployClient(parts.http, parts.clock, settings.deployserver_url, timeout_s)
    parts.news.party_changed.connect(lambda one: matchmaker.left_party(one.party_id, one.left))
    parts.news.sessions_ended.connect(lambda one: end_places(parts, matchmaker, one))
    return [
        Banner.of(settings, about),
        FixedReplies(),
        Login(settings, parts.directory, parts.tokens),
        Lookups(settings, parts.directory, now),
        AccountManagement(
            ledger,
            parts.tokens,
            parts.registration,
            now,
            parts.news.renamed,
            also_rename=(rename_characters,),
            busy=reads.busy,
        ),
        Invites(ledger),
        Presence(parts.online, parts.news.heard, now),
        Characters(ledger, now, thinning.characters if thinning is not None else None),
        *belongings(parts),
        *achievements(parts),
        *social(parts, matchmaker),
        Matchmaking(
            settings,
            matchmaker,
            Launching(matchmaker, deploy, parts.clock, now),
            parts.parties,
            parts.news.heard,
            now,
        ),
        ServerStatus(
            settings,
            about,
            parts.registration,
            parts.online,
            parts.directory,
            DeployedInstances(deploy, matchmaker, Titles.load(), settings.city_title),
            now,
            started_at=now(),
        ),
        OnlineList(settings, parts.online, matchmaker, now),
        BackendHealth(parts.health, reads.busy, now, started_at=now()),
        DashboardPages(),
        Dashboard(parts.shown, ledger, now, ReadLimit(now).busy),
    ]
