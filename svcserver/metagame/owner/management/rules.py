"""Values of the server status: where players are. Spec: 2 §2 Server status."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.metagame.play.presence.rules import Place


@frozen
class Whereabouts:
    """An online player's kind of place and map."""

    account_id: AccountId
    where: Place
    map: str


@frozen
class Placed:
    """The game servers, and the id of the one each player is in."""

    instances: list[dict[str, Json]]
    of_player: dict[AccountId, str]


class Instances(Protocol):
    """Joins the deploy server's game servers with the players.

    Never fails: without an answer within 2 s the list is empty.
    """

    def place(self, players: list[Whereabouts]) -> Awaitable[Placed]: ...
