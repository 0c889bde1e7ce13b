"""What the audit log keeps of an act of staff on a player's progression."""

from __future__ import annotations

from collections.abc import Sequence

from svcserver.kernel.json import Json
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.progression.rules import Track
from svcserver.metagame.achievements.wire import record


def of_tracks(tracks: Sequence[Track]) -> dict[str, Json]:
    """Progress and both confirmed ranks (free, premium) of tracks, by id."""
    return {
        "tracks": {
            one.id: [one.progress, one.confirmed_free, one.confirmed_premium] for one in tracks
        }
    }


def of_entitlement(name: str, held: Sequence[Entitlement]) -> dict[str, Json]:
    """The record of an entitlement among those in force; null where it is not."""
    found = (record(one.name, one.duration, one.activated_at) for one in held if one.name == name)
    return {name: next(found, None)}
