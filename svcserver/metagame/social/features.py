"""Players together: parties, friends, guilds and slayer links, made of their parts."""

from __future__ import annotations

from svcserver.metagame.parts import Parts
from svcserver.metagame.social.friends.book import FriendBook
from svcserver.metagame.social.friends.management import FriendManagement
from svcserver.metagame.social.friends.routes import Friends
from svcserver.metagame.social.friends.store import Blocks
from svcserver.metagame.social.guilds.book import GuildBook
from svcserver.metagame.social.guilds.management import GuildManagement
from svcserver.metagame.social.guilds.routes import GuildRoutes, GuildStubs
from svcserver.metagame.social.guilds.store import drop_invites_between
from svcserver.metagame.social.parties.management import PartyManagement
from svcserver.metagame.social.parties.routes import Candidates, Inviting, PartyRoutes
from svcserver.metagame.social.slayerlinks.acts import SlayerLinkActs
from svcserver.metagame.social.slayerlinks.routes import SlayerLinkRoutes
from svcserver.metagame.social.slayerlinks.store import cancel_between
from svcserver.web.routes import Feature


def features(parts: Parts, candidates: Candidates) -> list[Feature]:
    """The social features, joined by their news; ``candidates`` show in the party poll."""
    links = SlayerLinkRoutes(SlayerLinkActs(parts.ledger, parts.now))
    return [*_parties(parts, candidates), *_friends(parts), *_guilds(parts), links]


def _parties(parts: Parts, candidates: Candidates) -> list[Feature]:
    parties, news, now = parts.parties, parts.news, parts.now
    parties.changed.connect(news.party_changed.send)
    news.heard.connect(lambda one: parties.hear(one.account_id, now()))
    news.blocked.connect(parties.on_blocked)
    inviting = Inviting(parties, parts.directory, Blocks(parts.ledger), now)
    return [
        PartyRoutes(parts.settings, inviting, news.heard, candidates),
        PartyManagement(inviting),
    ]


def _friends(parts: Parts) -> list[Feature]:
    news = parts.news
    book = FriendBook(
        parts.ledger,
        parts.now,
        news.blocked,
        news.unfriended,
        news.friend_accepted,
        also_block=(drop_invites_between, cancel_between),
        also_unfriend=(cancel_between,),
    )
    return [Friends(parts.ledger, book), FriendManagement(parts.directory, book)]


def _guilds(parts: Parts) -> list[Feature]:
    book = GuildBook(parts.settings, parts.ledger, parts.now, parts.news.guild_changed)
    parts.news.heard.connect(lambda one: book.activity.hear(one.account_id, parts.now()))
    return [
        GuildRoutes(parts.ledger, book),
        GuildStubs(),
        GuildManagement(parts.directory, parts.ledger, book),
    ]
