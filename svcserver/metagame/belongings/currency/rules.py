"""The rules by which an account's balances are computed.

Spec: 1 §2 Currency table, §4 balance, reconcile.
"""

from collections.abc import Iterable, Mapping

from attrs import frozen

UPPER, LOWER = "CURRENCY_", "id_currency_"


@frozen
class Currencies:
    """The currencies; each has two keys.

    ``plain`` maps each key to a default: the balance of an account that has no stack of the
    currency. ``spellings`` maps each currency's catalogue id to the two keys. ``notes`` are the
    two keys of the main currency.
    """

    plain: Mapping[str, int]
    spellings: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]

    def filled(self, notes: int, stacks: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Return the balance for every currency key.

        Each balance is the quantity of the currency's stack. If there is no stack, the main
        currency's balance is ``notes``; any other currency has the default from ``self.plain``. The
        keys are always the same, in the same order. Stacks of other items are ignored.
        """
        currencies = dict(self.plain)
        for key in self.notes:
            currencies[key] = notes
        for catalog_id, quantity in stacks:
            for key in self.spellings.get(catalog_id, ()):
                currencies[key] = quantity
        return currencies

    def reconciled(self, notes: int, stacks: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Return the balance in the main currency, under both keys of that currency."""
        currencies = self.filled(notes, stacks)
        return {key: currencies[key] for key in sorted(self.notes, reverse=True)}
