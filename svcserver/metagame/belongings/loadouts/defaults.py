"""The loadout of a character that never saved, from ``data/defaults.json``."""

from __future__ import annotations

from typing import Any

from svcserver.kernel import datafiles, json
from svcserver.metagame.belongings.loadouts.rules import PERSISTENT, Defaults

PACKAGE, FILE = "svcserver.metagame.belongings.loadouts", "defaults.json"


def load() -> Defaults:
    """The defaults of the data file; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _checked)


def _checked(said: dict[str, Any]) -> Defaults:
    slot, persistent = said["slot"], said["persistent"]
    if slot["slot_index"] != 0 or persistent["update_version"] != 0:
        raise ValueError("slot_index and update_version must be 0")
    return Defaults(json.dump({**slot, PERSISTENT: persistent}), json.dump(persistent))
