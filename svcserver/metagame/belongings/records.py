"""The JSON form of transaction replies, for the inventory and the shop.

Spec: 1 §2 Inventory transaction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from svcserver.kernel import json


def show_transaction(
    created: Sequence[Any], removed: Sequence[Any], totals: Mapping[str, int]
) -> bytes:
    """Return the reply: ``created`` and ``removed`` unchanged, and each stack's final total."""
    return json.dump(
        {
            "createdInstancedItems": created,
            "updatedInstancedItems": [],
            "updatedStackedItems": [
                {"catalogId": catalog_id, "quantity": quantity}
                for catalog_id, quantity in totals.items()
            ],
            "removedInstancedItems": removed,
        }
    )
