"""What players do with slayer links."""

from __future__ import annotations

import random
from typing import Any

from simulation.holdings import SLOTS, LinkRow
from simulation.outcomes import ACKED, outcome
from simulation.player import SimPlayer, together
from svcserver.players import requests


async def link(me: SimPlayer, dice: random.Random) -> None:
    """Answer the invites, end a link, or invite a friend, who sometimes accepts at once."""
    heard = await me.ask("GET", "/slayerlink/status_good")
    if heard.status != 200:
        return
    said = heard.json["payload"]
    seen(me, said["links"])
    received = invited(me, said["invites"])
    if received:
        await answer(me, dice, dice.choice(received))
    elif said["links"] and dice.random() < 0.3:
        await end(me, dice.choice(said["links"]))
    else:
        await invite(me, dice)


def seen(me: SimPlayer, links: list[dict[str, Any]]) -> None:
    """The links that the player is shown."""
    rows = [
        LinkRow(me.account, one["linked_account_id"], one["slot"], one["link_id"]) for one in links
    ]
    me.history.links.seen(rows)


def invited(me: SimPlayer, invites: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The invites that the player is shown; gives those that are the player's to answer."""
    received = [one for one in invites if one["direction"] == "Received"]
    for one in received:
        me.history.links.invited(one["link_id"], me.account, one["account_id"])
    return received


async def answer(me: SimPlayer, dice: random.Random, one: dict[str, Any]) -> None:
    """Accept, sometimes twice at once; or reject."""
    who, link_id = one["account_id"], one["link_id"]
    if dice.random() < 0.2:
        await me.ask(*requests.answer_link(who, "reject", link_id=link_id))
        return
    known = me.history.links.accepting(link_id, me.account, who, me.now)
    slot = 1 + dice.randrange(SLOTS)
    call = requests.answer_link(who, "accept", link_id=link_id, slot=slot)

    async def once() -> None:
        heard = await me.ask(*call)
        if outcome(heard.status) == ACKED:
            known.made = ACKED

    await together(me, [once() for _ in range(1 + (dice.random() < 0.3))])


async def end(me: SimPlayer, one: dict[str, Any]) -> None:
    """End a link; once that is acknowledged, neither side may be shown it again."""
    ends = me.history.links.ending(me.account, one["linked_account_id"])
    wish = {"account_id": one["linked_account_id"], "slot": one["slot"]}
    heard = await me.ask("DELETE", "/slayerlink/links", wish)
    if outcome(heard.status) == ACKED:
        for known in ends:
            known.ended = ACKED


async def invite(me: SimPlayer, dice: random.Random) -> None:
    """Invite a friend into a random slot; most of those who are there accept at once."""
    friends = [
        other
        for other in me.everybody
        if me.history.friends.get(_pair(me, other)) == "friends" and other.account
    ]
    if not friends:
        return
    other = dice.choice(friends)
    call = requests.invite_to_link(other.account, 1 + dice.randrange(SLOTS))
    heard = await me.ask(*call)
    if heard.status == 200:
        me.history.links.invited(heard.json["payload"]["link_id"], me.account, other.account)
        if dice.random() < 0.7 and other.token and not other.busy:
            await other.act("link", dice)


def _pair(me: SimPlayer, other: SimPlayer) -> tuple[str, str]:
    low, high = sorted((me.account, other.account))
    return low, high
