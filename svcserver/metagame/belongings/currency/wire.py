"""Balances as the client reads them. Spec: 1 §4 reconcile."""

from __future__ import annotations

from typing import TypedDict


class ReconcileReply(TypedDict):
    """The main currency, and the word to read the inventory again."""

    balances: dict[str, int]
    refreshInventory: bool


def show_reconciled(balances: dict[str, int]) -> ReconcileReply:
    """With the word to read again."""
    return {"balances": balances, "refreshInventory": True}
