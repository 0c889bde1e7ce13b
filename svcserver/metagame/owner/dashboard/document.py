"""The OpenAPI document of the game's routes, for this server's admins and for ``svcctl``."""

from collections.abc import Iterable, Mapping
from typing import Any

from svcserver.kernel.datafiles import read_json
from svcserver.metagame.access.credentials import CREDENTIALS
from svcserver.metagame.rows import Access, Row
from svcserver.web import routes as web
from svcserver.web.openapi import document, templates

TITLE = "svc-metagame"
EXAMPLES = "examples.json"  # requests and replies recorded by the tests
EVERY_ROUTE = {  # the settings that mount every optional route
    "BACKEND_HEALTH": "1",
    "ESCALATION_MODE": "real",
    "MATCHMAKING_CANCEL": "1",
    "STORE": "free",
}
MEANINGS: Mapping[Access, str] = {
    Access.NONE: "anybody who can reach the route; credentials are ignored.",
    Access.TOKEN: "a player with its token, or a game server with its key. A game server that acts"
    " for a player also sends that player's token.",
    Access.PLAYER: "as `token`, but a player's token is required: a game server without one gets"
    " 403.",
    Access.OPTIONAL_TOKEN: "anybody; without a valid player token the reply is empty.",
    Access.ACCOUNT_KEY: "anybody with an account key who can reach the route.",
    Access.ADMIN_KEY: "staff (helpers, moderators, owners) with their account key or a dashboard"
    " session, and only directly.",
    Access.REGISTERED: "anybody; a valid account key or player token gets the full reply,"
    " everybody else a shorter one.",
    Access.GAME_SERVER: "a game server with its key.",
    Access.ADMIN_OR_GAME_SERVER: "as `admin key` or as `game-server key`.",
    Access.NODE: "the agent of a node of the fleet, with the node's certificate.",
    Access.DIRECT: "anybody, but only directly; credentials are ignored.",
}
MANAGEMENT = "/svc/"
PASSED = {
    True: "Available through the gateway.",
    False: "Not through the gateway, which answers 403.",
}
ABOUT = f"""The backend of an online co-op monster-hunting game: accounts, characters, inventories,
progression, parties, friends, guilds and matchmaking. Its callers are the game client, the game
servers, the launcher, and the owner's dashboard, whose routes begin with `/svc/`. Most paths and
bodies are fixed by the retired client (1.4.4).

**Where:** on the server's machine call the metagame, `http://127.0.0.1:61000` (PORT); from another
machine this works only if BIND_HOST allows it. From elsewhere call the gateway, `https://HOST`
(port 443, unless the owner chose another). The gateway's certificate is self-signed: its SHA-256 is
in every invite, and a client compares that instead of a name.

**To log in:** `POST /svc/api/Register` makes an account and returns its account key (`UUK`) once.
If registration needs an invite code (`GET /svc/api/RegistrationStatus`), the owner makes one with
`svcctl invite create`; it is the `code` of the join string (`svc://join`).
`POST /account/api/oauth/token` takes the key as `exchange_code` and returns a player token
(`access_token`). The token is valid for `expires_in` seconds, a day; `expires_at` is a fixed date,
because the client needs it. Send it with every later request as `Authorization: Bearer TOKEN`.

**Access** of a route says who may call it:

{"".join(f"- `{label}`: {meaning}{chr(10)}" for label, meaning in MEANINGS.items())}
Directly means: not through the gateway or another proxy, and not from another site's web page. On
the server's own machine the Host must be an address, localhost or the machine's own name, not the
public one. Other requests get 403. From another machine it works only if BIND_HOST allows it. The
gateway passes on few routes below `/svc/`; each route says whether it is one of them.

**Paths** match in any letter case, with or without a slash at the end; HEAD works where GET does.

**Refusals** have a status of 4xx. Their body differs between routes, because the client expects it;
each route names its own. 503 means that a part of the host is away or that the server is full: try
again after the seconds in Retry-After, if present. 502 means that the request may have been done.

**Stub progression:** an owner can give accounts everything without earning it
(`PROGRESSION_MODE`, `PROGRESSION_REAL_ACCOUNTS`). Such an account reads fixed values, nothing is
stored for it, and some routes answer 404. "Real progression" means all other accounts.
"""


def describe(rows: Iterable[web.WebRow], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of these routes, with access notes and recorded examples."""
    rows = list(rows)
    examples = read_json(str(__package__), EXAMPLES)
    result = document(rows, TITLE, version, CREDENTIALS, examples, ABOUT)
    path_of = templates(rows)
    for row in rows:
        if row.path.startswith(MANAGEMENT):
            operation = result["paths"][path_of[row.name]][row.method.lower()]
            operation["description"] += f" {PASSED[isinstance(row, Row) and row.public]}"
    return result
