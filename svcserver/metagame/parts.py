"""What features are made of: handed to each in ``features.py``, made in ``service.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svcserver.db.ledger import Ledger
from svcserver.kernel.counters import Counters
from svcserver.kernel.signals import (
    Blocked,
    FriendAccepted,
    GuildChanged,
    Heard,
    PartyChanged,
    Renamed,
    SessionsEnded,
    Signal,
    Unfriended,
)
from svcserver.metagame.access.epochs import Epochs
from svcserver.metagame.access.keys import Keys
from svcserver.metagame.access.relayed import Relayed
from svcserver.metagame.access.tokens import Tokens
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.management import Registration
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.owner.dashboard.shown import Shown
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.play.presence.online import Online, OnlineInMemory
from svcserver.metagame.settings import Settings
from svcserver.metagame.social.parties.rules import Parties, PartiesInMemory


@define
class News:
    """The signals between features."""

    heard: Signal[Heard] = field(factory=Signal)
    blocked: Signal[Blocked] = field(factory=Signal)
    unfriended: Signal[Unfriended] = field(factory=Signal)
    friend_accepted: Signal[FriendAccepted] = field(factory=Signal)
    party_changed: Signal[PartyChanged] = field(factory=Signal)
    guild_changed: Signal[GuildChanged] = field(factory=Signal)
    renamed: Signal[Renamed] = field(factory=Signal)
    sessions_ended: Signal[SessionsEnded] = field(factory=Signal)


@define
class Parts:
    """One of each.

    ``now`` gives epoch seconds, ``clock`` timers; ``http`` is a treq client for the
    deploy server.
    """

    settings: Settings
    ledger: Ledger
    clock: IReactorTime
    now: Callable[[], float]
    http: Any
    tokens: Tokens
    directory: Directory
    registration: Registration
    sessions: Sessions
    relayed: Relayed = field(init=False)
    online: Online = field(factory=OnlineInMemory)
    parties: Parties = field(factory=PartiesInMemory)
    news: News = field(factory=News)
    health: Health = field(factory=Health)
    shown: Shown = field(factory=Shown)
    counters: Counters = field(factory=Counters)

    @relayed.default
    def _one_for_all(self) -> Relayed:
        return Relayed(self.now)

    @classmethod
    def of(
        cls,
        settings: Settings,
        ledger: Ledger,
        clock: IReactorTime,
        now: Callable[[], float],
        http: Any,
    ) -> Parts:
        """The parts under these settings."""
        keys = Keys.read(
            settings.signing_private_key, settings.signing_public_key, settings.verify_keys
        )
        news = News()
        epochs = Epochs(news.sessions_ended)
        return cls(
            settings,
            ledger,
            clock,
            now,
            http,
            Tokens(now, keys, epochs),
            Directory(ledger, now, by_id=settings.login == "NONE"),
            Registration(settings.registration_mode),
            Sessions(ledger, epochs, now),
            news=news,
        )
