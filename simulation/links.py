"""The players' actions on slayer links."""

import random
from typing import Any

from simulation.holdings import SLOTS, LinkRow
from simulation.outcomes import ACKED, outcome
from simulation.player import SimPlayer, together
from svcserver.players import requests


async def link(me: SimPlayer, dice: random.Random) -> None:
    """Answer invites, end a link, or invite a friend, who sometimes accepts immediately."""
    reply = await me.make_request("GET", "/slayerlink/status_good")
    if reply.status != 200:
        return
    shown = reply.json["payload"]
    check_shown(me, shown["links"])
    received = invited(me, shown["invites"])
    if received:
        await answer(me, dice, dice.choice(received))
    elif shown["links"] and dice.random() < 0.3:
        await end(me, dice.choice(shown["links"]))
    else:
        await invite(me, dice)


def check_shown(me: SimPlayer, links: list[dict[str, Any]]) -> None:
    """Check the links that the player is shown."""
    rows = [
        LinkRow(me.account, link["linked_account_id"], link["slot"], link["link_id"])
        for link in links
    ]
    me.history.links.check_links(rows)


def invited(me: SimPlayer, invites: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Record the invites that the player is shown, and return those that the player can answer."""
    received = [invite for invite in invites if invite["direction"] == "Received"]
    for invite in received:
        me.history.links.invited(invite["link_id"], me.account, invite["account_id"])
    return received


async def answer(me: SimPlayer, dice: random.Random, invite: dict[str, Any]) -> None:
    """Accept an invite, sometimes twice concurrently, or reject it."""
    who, link_id = invite["account_id"], invite["link_id"]
    if dice.random() < 0.2:
        await me.make_request(*requests.answer_link(who, "reject", link_id=link_id))
        return
    known = me.history.links.accepting(link_id, me.account, who, me.now)
    slot = 1 + dice.randrange(SLOTS)
    call = requests.answer_link(who, "accept", link_id=link_id, slot=slot)

    async def once() -> None:
        reply = await me.make_request(*call)
        if outcome(reply.status) == ACKED:
            known.made = ACKED

    await together(me, [once() for _ in range(1 + (dice.random() < 0.3))])


async def end(me: SimPlayer, shown: dict[str, Any]) -> None:
    """End a link; once this is acknowledged, neither player may be shown the link again."""
    ends = me.history.links.ending(me.account, shown["linked_account_id"])
    body = {"account_id": shown["linked_account_id"], "slot": shown["slot"]}
    reply = await me.make_request("DELETE", "/slayerlink/links", body)
    if outcome(reply.status) == ACKED:
        for known in ends:
            known.ended = ACKED


async def invite(me: SimPlayer, dice: random.Random) -> None:
    """Invite a friend to a random slot; most online friends accept immediately."""
    friends = [
        friend
        for friend in me.everybody
        if me.history.friends.get(_pair(me, friend)) == "friends" and friend.account
    ]
    if not friends:
        return
    friend = dice.choice(friends)
    call = requests.invite_to_link(friend.account, 1 + dice.randrange(SLOTS))
    reply = await me.make_request(*call)
    if reply.status == 200:
        me.history.links.invited(reply.json["payload"]["link_id"], me.account, friend.account)
        if dice.random() < 0.7 and friend.token and not friend.busy:
            await friend.run_action("link", dice)


def _pair(me: SimPlayer, second: SimPlayer) -> tuple[str, str]:
    low, high = sorted((me.account, second.account))
    return low, high
