"""The currencies, from ``data/currencies.json``: 52 keys in order. Spec: 1 §2 Currency table."""

from __future__ import annotations

import re
from typing import Any

from svcserver.kernel import datafiles
from svcserver.metagame.belongings.currency.rules import LOWER, UPPER, Currencies

PACKAGE, FILE = "svcserver.metagame.belongings.currency", "currencies.json"
KEYS = 52


def load() -> Currencies:
    """Load the data file; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _currencies)


def _currencies(said: dict[str, Any]) -> Currencies:
    keys, notes, fixed = said.get("keys"), said.get("notes"), said.get("without_stack")
    if not isinstance(keys, list) or not all(isinstance(one, str) for one in keys):
        raise ValueError("keys must be a list of texts")
    names = {one.removeprefix(UPPER) for one in keys if re.fullmatch(f"{UPPER}[A-Z0-9_]+", one)}
    twins = {UPPER + one for one in names} | {LOWER + one.lower() for one in names}
    if len(keys) != KEYS or set(keys) != twins:
        raise ValueError(f"keys must be {KEYS // 2} currencies in two spellings")
    if (
        not isinstance(notes, str)
        or notes not in names
        or not isinstance(fixed, dict)
        or not fixed.keys() <= names
    ):
        raise ValueError("notes and without_stack must name currencies")
    if any(type(one) is not int or one < 0 for one in fixed.values()):
        raise ValueError("without_stack must hold whole numbers")
    spellings = {UPPER + one: (UPPER + one, LOWER + one.lower()) for one in names}
    values = {key: fixed[one] for one in fixed for key in spellings[UPPER + one]}
    return Currencies(
        {key: values.get(key, 0) for key in keys}, spellings, spellings[UPPER + notes]
    )
