"""The players' actions in guilds."""

import random
from typing import Any

from simulation.memberships import LEADER, MEMBER, OFFICER, Roll
from simulation.outcomes import ACKED, UNKNOWN, outcome
from simulation.player import SimPlayer
from svcserver.players import requests


async def guild(me: SimPlayer, dice: random.Random) -> None:
    """Read the player's guild and act in it as the player's rank permits, or join a guild."""
    began, account = me.now, me.account
    reply = await me.make_request("GET", "/guild")
    if reply.status not in (200, 204):
        return
    shown = reply.json if reply.status == 200 else None
    roll = None if shown is None else _roll(shown)
    me.history.guilds.shown(account, roll, began)
    me.guild = "" if shown is None else str(shown["id"])
    if roll is None:
        await join_guild(me, dice)
    elif roll.leader == account:
        await _lead(me, dice, roll)
    elif dice.random() < 0.15:
        writes = me.history.guilds.leaving(account, me.now)
        reply = await me.make_request("DELETE", "/guild/player")
        me.history.guilds.answered(writes, outcome(reply.status), me.now)
    else:
        await _invite(me, dice)


def _roll(shown: dict[str, Any]) -> Roll:
    ranks = tuple((member["phx_account_id"], member["rank"].lower()) for member in shown["members"])
    return Roll(shown["name"], shown["leader_account_id"], ranks)


async def _invite(me: SimPlayer, dice: random.Random) -> None:
    invited = me.choose_peer(dice)
    if invited is None:
        return
    reply = await me.make_request(*requests.invite_to_guild(invited.account))
    if reply.status == 200 and dice.random() < 0.5 and invited.token and not invited.busy:
        await invited.run_action("guild", dice)


async def _lead(me: SimPlayer, dice: random.Random, roll: Roll) -> None:
    """Invite a player, change a rank, remove a member, or disband the guild."""
    known, draw = me.history.guilds, dice.random()
    others = sorted(account for account, _ in roll.ranks if account != me.account)
    if draw < 0.04:
        known.disbanding(roll.name, me.now)
        reply = await me.make_request("DELETE", f"/guild/{me.guild}")
        if outcome(reply.status) == ACKED:
            known.disbanded(roll.name, me.now)
    elif draw < 0.4 and others:
        member = dice.choice(others)
        rank = dice.choice((OFFICER, OFFICER, MEMBER, LEADER))
        writes = known.ranking(roll.name, me.account, member, rank, me.now)
        reply = await me.make_request("PUT", f"/guild/rank/{member}/{rank}")
        known.answered(writes, outcome(reply.status), me.now)
    elif draw < 0.45 and others:
        member = dice.choice(others)
        writes = known.leaving(member, me.now)
        reply = await me.make_request("DELETE", f"/guild/player/{member}")
        known.answered(writes, outcome(reply.status), me.now)
    else:
        await _invite(me, dice)


async def join_guild(me: SimPlayer, dice: random.Random) -> None:
    """Accept an invite into a guild; if there is no invite, sometimes found a guild."""
    reply = await me.make_request("GET", "/guild/invite/player")
    invites = (reply.json or {}).get("invites", []) if reply.status == 200 else []
    if not invites:
        if dice.random() < 0.4:
            await found_guild(me, dice)
        return
    invite, account = invites[0], me.account
    writes = me.history.guilds.joining(account, invite["guild_name"], MEMBER, me.now)
    reply = await me.make_request(*requests.accept_guild(invite["id"]))
    me.history.guilds.answered(writes, outcome(reply.status), me.now)


async def found_guild(me: SimPlayer, dice: random.Random) -> None:
    """Check that a name is free, and let a game server found the guild."""
    name = f"Guild{me.number}x{dice.randrange(1000)}"
    server = next((server for server in me.servers.running() if server.listens), None)
    known, account, began = me.history.guilds, me.account, me.now

    def may(status: int) -> bool:  # the name is taken, or the player in a guild since
        return status == 409 and (
            name in known.founded_names or known.may_have_joined(account, began)
        )

    reply = await me.make_request(*requests.check_guild(name), may=may)
    if server is None or reply.status != 200:
        return
    state = UNKNOWN
    writes = known.joining(account, name, LEADER, me.now)
    try:
        reply = await me.ask_by_server(server, *requests.found_guild(account, name))
        state = outcome(reply.status)
    finally:
        known.answered(writes, state, me.now)
