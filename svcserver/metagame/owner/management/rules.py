"""Which player is in which game server. Spec: 2 §2 Server status."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.metagame.play.presence.places import Place


@frozen
class Whereabouts:
    """One online player as the instance list needs them."""

    account_id: AccountId
    where: Place
    map: str


@frozen
class Placed:
    """The instance list, and the instance id of each player who is in one."""

    instances: list[dict[str, Json]]
    of_player: dict[AccountId, str]


class Instances(Protocol):
    """Asks the deploy server for its game servers and joins them with the players.

    Never fails: no answer within 2 s is an empty list.
    """

    def place(self, players: list[Whereabouts]) -> Awaitable[Placed]: ...
