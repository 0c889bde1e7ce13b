"""Balances: fixed values, overlaid by what is held.

Spec: 1 §2 Currency table, §4 balance, reconcile. ``data/currencies.json`` holds the 52 keys in
their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from svcserver.kernel import datafiles

PACKAGE, FILE = "svcserver.metagame.belongings.currency", "currencies.json"
UPPER, LOWER = "CURRENCY_", "id_currency_"
KEYS = 52


@frozen
class Currencies:
    """The currency keys in order, with their values for an account without a stack of them.

    ``spellings`` maps a catalogue id to its keys; ``notes`` are those of the main currency.
    """

    plain: Mapping[str, int]
    spellings: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]

    def filled(self, notes: int, stacks: Iterable[tuple[str, int]]) -> dict[str, int]:
        """All balances: stacks overlay the main currency's column, which overlays fixed values.

        Keys are never added, removed or reordered; a stack that has no key is ignored.
        """
        currencies = dict(self.plain)
        for key in self.notes:
            currencies[key] = notes
        for catalog_id, quantity in stacks:
            for key in self.spellings.get(catalog_id, ()):
                currencies[key] = quantity
        return currencies

    def reconciled(self, notes: int, stacks: Iterable[tuple[str, int]]) -> dict[str, int]:
        """The main currency under its two keys, in the order of the reply."""
        currencies = self.filled(notes, stacks)
        return {key: currencies[key] for key in sorted(self.notes, reverse=True)}


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
