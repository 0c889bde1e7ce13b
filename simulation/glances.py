"""The players' reads of friends, progress, slayer links and the host's status."""

import random

from simulation import links
from simulation.downloads import ACCOUNT_KEY
from simulation.player import SEASON, SimPlayer
from svcserver.players.requests import FRIENDS


async def taken_in(me: SimPlayer) -> None:
    """Finish a login: check the token's owner, and that the queue admits the player."""
    token, issued = me.token, me.issued
    reply = await me.make_request("GET", "/account/api/oauth/verify", patient=True)
    same = me.token == token and not me.is_over(issued)
    if reply.status == 200 and same and reply.json.get("account_id") != me.account:
        text = f"{me.name}'s token is that of {reply.json.get('account_id')}"
        me.history.wrong.add("one account a name", text)
    body = {"email": me.account, "env": "prod", "lang": "en"}
    reply = await me.make_request("POST", "/login", body, patient=True)
    if reply.status == 200 and reply.json.get("state") != "OPEN":
        me.history.wrong.add("refused for nothing", f"{me.name} is not let in: {reply.json}")


async def glance(me: SimPlayer, dice: random.Random) -> None:
    """Read the friends, progress, slayer links or host status, chosen at random."""
    await dice.choice((friends, progress, slayers, status))(me)


async def friends(me: SimPlayer) -> None:
    """Check that the friends list contains all players who are certainly friends."""
    began, issued = me.now, me.issued
    for _ in range(2):  # somebody may end a friendship, and begin it again, while the list comes
        before = _sure(me)
        reply = await me.make_request("GET", f"{FRIENDS}/{me.account}?includePending=true")
        if reply.status != 200 or me.is_over(issued):  # to strangers the list is empty
            return
        listed = {friend["accountId"] for friend in reply.json if friend["status"] == "ACCEPTED"}
        lacking = [friend for friend in before if friend not in listed and friend in _sure(me)]
        if not lacking:
            return
    if me.token and me.history.answers.untroubled(began):
        text = f"{me.name} is not shown the friend {lacking[0]}"
        me.history.wrong.add("acknowledged means present", text)


def _sure(me: SimPlayer) -> list[str]:
    """Return the accounts that are certainly friends of the player."""
    accounts = []
    for pair, known in me.history.friends.items():
        if known == "friends" and me.account in pair:
            accounts.append(pair[pair[0] == me.account])
    return accounts


async def progress(me: SimPlayer) -> None:
    """Check that the shown experience is at least the amount acknowledged before the request."""
    account, least = me.account, me.history.grants.least[me.account]
    reply = await me.make_request("GET", f"/progression/{account}")
    if reply.status != 200:
        return
    tracks = {track["progression_id"]: track["progress"] for track in reply.json["payload"]}
    if tracks.get(SEASON, 0) < least:
        text = f"{account}: {tracks.get(SEASON, 0)}, and {least} were acknowledged"
        me.history.wrong.add("acknowledged means present", text)


async def slayers(me: SimPlayer) -> None:
    """Read and check the slayer links and the invites to slayer links."""
    reply = await me.make_request("GET", "/slayerlink/links")
    if reply.status == 200:
        links.check_shown(me, reply.json["payload"]["links"])
    reply = await me.make_request("GET", "/slayerlink/invites")
    if reply.status == 200:
        links.invited(me, reply.json["payload"]["invites"])


async def status(me: SimPlayer) -> None:
    """Read the host's status as a registered player."""
    reply = await me.make_request("GET", "/svc/api/ServerStatus", headers={ACCOUNT_KEY: me.key})
    if reply.status == 200 and (reply.json["limited"] or not reply.json["online"]):
        me.history.wrong.add("refused for nothing", f"{me.name} gets the status that strangers get")
