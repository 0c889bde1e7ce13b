"""Which requests the gateway may send twice, where an upstream ends before it has answered.

The second bears a mark (``X-Svc-Repeated``), which no client can set. Either it does nothing that
the first had not, by its own rule; or the metagame knows by the mark that the first may have been
done (``Call.repeat``), does it once, and answers as it would have (``kernel/repeats.py``).

Not among them:

* registering, and asking for a new account key: the key is told once, and only its hash is kept;
* all that staff and game servers ask: they reach the metagame without the gateway.

Two are refused with 503 where it cannot be known whether they were done: an inventory transaction
without an id, and handing a guild to one of its officers.
"""

from __future__ import annotations

import re

from svcserver.gateway.policy import HEARTBEAT, TOKEN

PLAIN_POSTS = frozenset(
    [
        TOKEN,
        HEARTBEAT,
        "/character",  # a save: marked, it is answered as it was the first time
        "/inventory",  # by its transactionId; without one the metagame refuses the second
        "/inventory/instanceditem",
        "/login",
        "/party",  # a poll
        "/party/status",
        "/reconcile",
        "/candidate/join",
        "/candidate/player/alive",
        "/candidate/player/register",  # there is nothing to register
        "/slayerlink/availability",
        "/slayerlink/invite",  # the same answer may be given again, to the same invite
        "/guild/validate",
        "/account/mapping",  # it reads, as the next two
        "/accountinfo/public",
        "/launcher/name-free",
        "/account/migrate",  # the answer is always the same, as with the next
        "/event",
        "/key/generate",
        "/motd",
        "/profile/update",
    ]
)
"""POSTs of a fixed path, found by a look-up: heartbeats, polls and saves are among them."""

ROWS = (
    "PUT /character",  # one of that name, made just now, is the one
    "POST /breadcrumbs/<character_id>",
    "POST /candidate/join/<candidate_id>",
    "POST /encountered-content/<character_id>",
    "POST /encountered-content/query/<character_id>",
    "POST /friends/api/public/blocklist/<user_id>/<friend_id>",
    "POST /friends/api/public/friends/<user_id>/<friend_id>",
    "POST /guild/invite/accept/<invite_id>",
    "POST /inventory/<character_id>/<change_list>",  # always the same, as killing a session
    "DELETE /account/api/oauth/sessions/kill",
    "DELETE /account/api/oauth/sessions/kill/<token>",
    "POST /loadout/<user_id>/<character_id>/<index>",
    "POST /notification/<currency>",  # a purchase's token is redeemed once
    "PUT /friends/api/public/blocklist/<user_id>/<friend_id>",
    "PUT /gamesession/epic",  # an echo
    "PUT /guild/invite/<account_id>",
    "PUT /guild/rank/<account_id>/<rank>",
    "PUT /party/invite",
    "PUT /party/invite/accept/<invite_id>",
    "PUT /party/member/promote/<member_id>",
    "PUT /slayerlink/invite",  # the same invite gets the same id
    "DELETE /candidate",
    "DELETE /candidate/leave",
    "DELETE /friends/api/public/blocklist/<user_id>/<friend_id>",
    "DELETE /friends/api/public/friends/<user_id>/<friend_id>",
    "DELETE /guild/<guild_id>",
    "DELETE /guild/invite/<invite_id>",
    "DELETE /guild/player",
    "DELETE /guild/player/<account_id>",
    "DELETE /party/invite",
    "DELETE /party/leader/<leader_id>",  # a sign of life
    "DELETE /party/member",
    "DELETE /party/member/<member_id>",
    "DELETE /slayerlink/invites/<account_id>",
    "DELETE /slayerlink/links",
)
"""All else that players send, by the names of the metagame's rows."""

WRITTEN_BY_GAME_SERVERS = (
    "POST /bounty/<user_id>",
    "POST /bounty/delete/<user_id>",
    "POST /entitlementv2/<user_id>",
    "POST /escalation/<season>/<user_id>",
    "POST /huntpass/<user_id>",
    "POST /loadout/<user_id>/<character_id>/active/<index>",
    "POST /loadout/<user_id>/<character_id>/unlock/<num_slots>",
    "POST /progression/<user_id>",
    "POST /progression/<user_id>/<progression_id>/<amount>",
    "POST /progression/<user_id>/<progression_id>/<rank>/confirm/<kind>",
    "PUT /cooldown/batch/<user_id>",
    "PUT /cooldown/<user_id>/<cooldown_id>",
    "DELETE /entitlement/<user_id>/<entitlement>",
)
"""Rows that write for game servers only: a player's second is refused, or changes nothing, too."""

_ROWS = re.compile(
    "|".join(re.sub(r"<\w+>", "[^/]+", one) for one in ROWS + WRITTEN_BY_GAME_SERVERS)
)


def may_repeat(method: bytes, path: str) -> bool:
    """Whether the request may be sent twice, with the mark; ``path`` is canonical.

    What only reads (GET and HEAD) may be, too, without.
    """
    if method == b"GET":
        return False
    if method == b"POST" and path in PLAIN_POSTS:
        return True
    return _ROWS.fullmatch(f"{method.decode('latin-1')} {path}") is not None
