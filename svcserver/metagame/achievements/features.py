"""What players achieve: progression, entitlements, cooldowns, bounties, discoveries."""

from __future__ import annotations

from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.bounties.acts import BountyActs
from svcserver.metagame.achievements.bounties.routes import BountyRoutes, load_game_data
from svcserver.metagame.achievements.breadcrumbs.routes import Breadcrumbs
from svcserver.metagame.achievements.cooldowns.routes import Cooldowns
from svcserver.metagame.achievements.encounters.routes import Encounters
from svcserver.metagame.achievements.entitlements.routes import Entitlements
from svcserver.metagame.achievements.escalation import registry
from svcserver.metagame.achievements.escalation.routes import Escalation, EscalationStub
from svcserver.metagame.achievements.progression import config
from svcserver.metagame.achievements.progression.management import ProgressionManagement
from svcserver.metagame.achievements.progression.routes import HuntPass, Progression
from svcserver.metagame.parts import Parts
from svcserver.web.routes import Feature


def features(parts: Parts) -> list[Feature]:
    """These features; raises BadData where a data or season file is no good."""
    settings, ledger, now = parts.settings, parts.ledger, parts.now
    log = EventLog(ledger, now, parts.relayed)
    tracks = config.load(settings.progression_config_dir, settings.active_hunt_pass)
    seasons, game_data = registry.load(), load_game_data()
    return [
        Entitlements(settings, ledger, now, log),
        Progression(settings, tracks, ledger, now, log),
        HuntPass(settings, tracks, ledger, log),
        ProgressionManagement(settings, tracks, ledger, now, log),
        EscalationStub(),
        Escalation(settings, seasons, ledger, log),
        Cooldowns(settings, ledger, now, log),
        BountyRoutes(settings, game_data, BountyActs(ledger, now, log)),
        Encounters(ledger),
        Breadcrumbs(ledger),
    ]
