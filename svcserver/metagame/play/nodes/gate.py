"""Access control of the fleet's listener: what a node may do.

A node proves its identity with its certificate. The node's game servers may do what game servers of
this machine may do, with two limits. A request needs the launch key of a game server that runs on
the node. The request may act only for players whom the metagame sent to this game server, and for
players named in the request that launched the server. Without Valkey, a metagame that was killed,
or away for over a minute, has forgotten whom it sent; then only the named players are allowed.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import ceil
from typing import Any

from attrs import define, evolve, field

from svcserver.edge.nodes import MAX_NODES, BadFleet, FleetFolder
from svcserver.kernel import json
from svcserver.kernel.headers import ACCOUNT_KEY, GAME_SERVER_KEY, MACHINE, RELAYED
from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.rates import Rate, TokenBuckets
from svcserver.kernel.refusals import Forbidden, Refusal, TooLarge, TooMany, Unauthenticated
from svcserver.metagame.access.gate import Gate
from svcserver.metagame.play.deploy_client import DeployClient, LaunchKeys
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.rows import Access, Caller, Row
from svcserver.web.front import parse_body
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer

MAX_NAMED = 16  # accounts that a request may name
RATES = {True: Rate(200, 6_000), False: Rate(2_000, 12_000)}  # True: a node's agent
SERVED = frozenset((Access.TOKEN, Access.GAME_SERVER, Access.ADMIN_OR_GAME_SERVER, Access.NODE))


def is_served(row: Row) -> bool:
    """Return whether nodes may call the route."""
    return row.access in SERVED


@define
class NodeGate:
    """The gate of the fleet's listener.

    This gate applies the rules for nodes; ``gate`` then applies the rules for all game servers.
    """

    gate: Gate
    fleet: FleetFolder
    deploy: DeployClient
    matches: LiveMatches
    _keys: dict[str, LaunchKeys] = field(factory=dict, init=False)  # so no node delays another
    _buckets: Mapping[bool, TokenBuckets] = field(init=False)

    @_buckets.default
    def _full(self) -> Mapping[bool, TokenBuckets]:
        return {is_agent: TokenBuckets(rate, MAX_NODES) for is_agent, rate in RATES.items()}

    def exists(self, row: Row, parameters: Mapping[str, str]) -> bool:
        return self.gate.exists(row, parameters)

    def address(self, request: HttpRequest) -> str:
        return ""

    def early(self, row: Row, request: HttpRequest, length: int | None) -> Answer | None:
        """Return the refusal if the credentials are unsuitable; None if the body may be read."""
        try:
            self._check_credential(row, request)
        except Refusal as why:
            return row.refuse(why.status, why)
        return None if row.access is Access.NODE else self.gate.early(row, request, length)

    def _check_credential(self, row: Row, request: HttpRequest) -> None:
        if not self.knows(request.node):
            raise Forbidden("this node is revoked")
        if row.access is Access.NODE:
            if request.has_header(RELAYED):
                raise Forbidden("only the node's agent may call this route")
            return
        if request.has_header(ACCOUNT_KEY) or request.has_header(MACHINE):
            raise Forbidden("only a game server may call this route")
        if not request.has_header(GAME_SERVER_KEY):
            raise Unauthenticated("no game-server key")

    def knows(self, node: str) -> bool:
        """Return whether the node is in the fleet, and not revoked."""
        try:
            return any(entry.id == node for entry in self.fleet.nodes())
        except BadFleet:
            return False

    async def admit(self, row: Row, request: HttpRequest, parameters: Mapping[str, str]) -> Caller:
        """Return the caller: the node's agent, or a game server and the accounts it may act for."""
        self._check_credential(row, request)
        is_agent = row.access is Access.NODE
        wait_s = self._buckets[is_agent].take(request.node, self.deploy.clock.seconds())
        if wait_s:
            raise TooMany("this node sends too many requests", retry_after_s=ceil(wait_s))
        if is_agent:
            return Caller(node=request.node)
        keys = self._keys.setdefault(request.node, LaunchKeys(self.deploy))
        holder = await keys.find(request.header(GAME_SERVER_KEY) or "")
        if holder is None or holder.server.node != request.node:
            self.gate.attempts.note("game_server_key")
            raise Unauthenticated("not the key of a game server on this node")
        caller = await self.gate.admit(row, request, parameters)
        named = {*_named(request, parameters), *([caller.account] if caller.account else ())}
        players = await self.matches.players_on(
            holder.server, named, "" if holder.is_persistent else holder.match_id
        )
        players |= holder.players & named
        for account in (caller.account, parameters.get("user_id")):
            if account is not None and account not in players:
                raise Forbidden("this player was not sent to this game server")
        return evolve(caller, node=request.node, acts_for=players)


def _named(request: HttpRequest, parameters: Mapping[str, str]) -> Iterator[AccountId]:
    """Yield the account ids in the path and at the top level of the body; at most ``MAX_NAMED``.

    The body is not read if the path has a ``user_id``. If a handler acts for an account that is
    named deeper in the body, ``Acting`` raises Forbidden.
    """
    body: Any = {}
    if request.body and "user_id" not in parameters:
        with suppress(json.BadJson, TooLarge):  # the router answers this
            body = parse_body(request)
    values = [*parameters.values(), *(body.values() if isinstance(body, dict) else ())]
    accounts = [value for value in values if is_account_shaped(value)]
    yield from dict.fromkeys(accounts[:MAX_NAMED])
