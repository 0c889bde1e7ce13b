"""The JSON form of items and of transaction replies, used by routes and by the store.

Spec: 1 §2 Inventory transaction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from svcserver.kernel import json
from svcserver.metagame.belongings.items import Instance


def plain(instance_id: str, catalog_id: str) -> Instance:
    """Return a new instanced item without data, as the shop grants it."""
    shown = {"catalogId": catalog_id, "instanceId": instance_id, "updateVersion": 0}
    return Instance(instance_id, catalog_id, 0, True, json.dump(shown))


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
