"""What players do with guilds."""

from __future__ import annotations

import random
from typing import Any

from simulation.memberships import LEADER, MEMBER, OFFICER, Roll
from simulation.outcomes import ACKED, UNKNOWN, outcome
from simulation.player import SimPlayer
from svcserver.players import requests


async def guild(me: SimPlayer, dice: random.Random) -> None:
    """Look at one's guild, and do in it what one's rank allows; or get into one."""
    began, account = me.now, me.account
    heard = await me.ask("GET", "/guild")
    if heard.status not in (200, 204):
        return
    said = heard.json if heard.status == 200 else None
    roll = None if said is None else _roll(said)
    me.history.guilds.shown(account, roll, began)
    me.guild = "" if said is None else str(said["id"])
    if roll is None:
        await join_guild(me, dice)
    elif roll.leader == account:
        await _lead(me, dice, roll)
    elif dice.random() < 0.15:
        writes = me.history.guilds.leaving(account, me.now)
        heard = await me.ask("DELETE", "/guild/player")
        me.history.guilds.answered(writes, outcome(heard.status), me.now)
    else:
        await _invite(me, dice)


def _roll(said: dict[str, Any]) -> Roll:
    ranks = tuple((one["phx_account_id"], one["rank"].lower()) for one in said["members"])
    return Roll(said["name"], said["leader_account_id"], ranks)


async def _invite(me: SimPlayer, dice: random.Random) -> None:
    other = me.other(dice)
    if other is None:
        return
    heard = await me.ask(*requests.invite_to_guild(other.account))
    if heard.status == 200 and dice.random() < 0.5 and other.token and not other.busy:
        await other.act("guild", dice)


async def _lead(me: SimPlayer, dice: random.Random, roll: Roll) -> None:
    """Invite, give ranks, hand the guild over, put somebody out, or disband."""
    known, draw = me.history.guilds, dice.random()
    others = sorted(one for one, _ in roll.ranks if one != me.account)
    if draw < 0.04:
        known.disbanding(roll.name, me.now)
        heard = await me.ask("DELETE", f"/guild/{me.guild}")
        if outcome(heard.status) == ACKED:
            known.disbanded(roll.name, me.now)
    elif draw < 0.4 and others:
        other = dice.choice(others)
        rank = dice.choice((OFFICER, OFFICER, MEMBER, LEADER))
        writes = known.ranking(roll.name, me.account, other, rank, me.now)
        heard = await me.ask("PUT", f"/guild/rank/{other}/{rank}")
        known.answered(writes, outcome(heard.status), me.now)
    elif draw < 0.45 and others:
        other = dice.choice(others)
        writes = known.leaving(other, me.now)
        heard = await me.ask("DELETE", f"/guild/player/{other}")
        known.answered(writes, outcome(heard.status), me.now)
    else:
        await _invite(me, dice)


async def join_guild(me: SimPlayer, dice: random.Random) -> None:
    """Accept an invite into a guild; who has none founds one now and then."""
    heard = await me.ask("GET", "/guild/invite/player")
    found = (heard.json or {}).get("invites", []) if heard.status == 200 else []
    if not found:
        if dice.random() < 0.4:
            await found_guild(me, dice)
        return
    one, account = found[0], me.account
    writes = me.history.guilds.joining(account, one["guild_name"], MEMBER, me.now)
    heard = await me.ask(*requests.accept_guild(one["id"]))
    me.history.guilds.answered(writes, outcome(heard.status), me.now)


async def found_guild(me: SimPlayer, dice: random.Random) -> None:
    """Have a name checked, and have a game server found the guild."""
    name = f"Guild{me.number}x{dice.randrange(1000)}"
    server = next((one for one in me.servers.running() if one.listens), None)
    known, account, began = me.history.guilds, me.account, me.now

    def may(status: int) -> bool:  # the name is taken, or the player in a guild since
        return status == 409 and (name in known.asked or known.may_have_joined(account, began))

    heard = await me.ask(*requests.check_guild(name), may=may)
    if server is None or heard.status != 200:
        return
    state = UNKNOWN
    writes = known.joining(account, name, LEADER, me.now)
    try:
        heard = await me.ask_by_server(server, *requests.found_guild(account, name))
        state = outcome(heard.status)
    finally:
        known.answered(writes, state, me.now)
