"""Reply shapes of balances. Spec: 1 §4 reconcile."""

from __future__ import annotations

from typing import TypedDict


class ReconcileReply(TypedDict):
    """What the account has of the main currency; the client then reads its inventory again."""

    balances: dict[str, int]
    refreshInventory: bool


def show_reconciled(balances: dict[str, int]) -> ReconcileReply:
    """Balances after a reconciliation; the client then reads its inventory anew."""
    return {"balances": balances, "refreshInventory": True}
