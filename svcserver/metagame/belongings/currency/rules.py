"""Balances: fixed values, overlaid by the account's own.

Spec: 1 §2 Currency table, §4 balance, reconcile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

UPPER, LOWER = "CURRENCY_", "id_currency_"


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
