"""Bodies of inventory requests, parsed as the metagame parses them."""

from typing import Any

from svcserver.kernel.readers import reader
from svcserver.metagame.belongings import items
from svcserver.metagame.belongings.inventory import wire
from svcserver.metagame.belongings.items import Instance, Transaction

_identifier = reader(wire.Identifier)
_instance, _stack = reader(wire.InstanceRequest), reader(wire.StackRequest)
_transaction = reader(wire.TransactionRequest)
source_of, transaction_id = items.source_of, items.transaction_id


def transaction(sent: Any) -> Transaction:
    made: Transaction = _transaction(sent).transaction()
    return made


def stack(sent: Any) -> wire.StackRequest:
    made: wire.StackRequest = _stack(sent)
    return made


def instance(sent: Any) -> Instance:
    made: Instance = _instance(sent).instance()
    return made


def identifier(sent: Any, name: str) -> str:
    made: str = _identifier(sent)
    return made
