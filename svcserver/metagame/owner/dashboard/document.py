"""The OpenAPI document of the game, for admins of this server and for ``svcctl``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from svcserver.kernel.datafiles import read
from svcserver.metagame.access.credentials import CREDENTIALS
from svcserver.metagame.rows import Access, Row
from svcserver.web import routes as web
from svcserver.web.openapi import document
from svcserver.web.openapi_paths import templates

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
    Access.ADMIN_OR_GAME_SERVER: "either of the two above.",
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
bodies are as the retired client (1.4.4) wants them, odd as they may be.

**Where:** from elsewhere `https://HOST` (port 443, if the owner chose no other), where the gateway
answers; on the machine of the server, and only with BIND_HOST from another, the metagame itself
does: `http://127.0.0.1:61000`, if PORT says nothing else. The gateway's certificate is signed by
nobody but itself: its SHA-256 stands in every invite, and a client compares that instead of
a name.

**To log in:** `POST /svc/api/Register` makes an account and hands out its account key (`UUK`), this
once. Where only the invited may register (`GET /svc/api/RegistrationStatus` says it) it takes an
invite code: the owner makes one by `svcctl invite create`; it is the `code` of the join string
(`svc://join`). `POST /account/api/oauth/token` takes the key as `exchange_code` and gives a player
token (`access_token`) for as many seconds as `expires_in` says, a day; `expires_at` is
a fixed date, as the client wants it. The token goes with every later request as
`Authorization: Bearer TOKEN`.

**Access** says with each route who may call it:

{"".join(f"- `{label}`: {meaning}{chr(10)}" for label, meaning in MEANINGS.items())}
Directly means: neither through the gateway or another proxy, nor from another site's web page, and
on the server's own machine with a Host that means just that (an address, localhost or its own name,
not the public one): 403 otherwise. From another machine it works only where BIND_HOST lets it. Of
the routes below `/svc/` the gateway passes on a few alone; each says whether it is one of them.

**Paths** match in any letter case, with or without a slash at the end; HEAD works where GET does.

**Refusals** have a status of 4xx. What their body looks like differs between routes, as the client
has it; each route names the one it uses. 503 means that a part of the host is away or that the
server is full: ask again later, after as many seconds as the header Retry-After says where it is
there. 502 means that nobody knows whether the request has been done.

**Stub progression:** an owner can give accounts everything instead of letting them earn it
(`PROGRESSION_MODE`, `PROGRESSION_REAL_ACCOUNTS`). Such an account reads fixed values, nothing that
is written for it is kept, and some routes are a 404 for it. What routes say of \"real progression\"
is of all other accounts.
"""


def describe(rows: Iterable[web.Row], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of these rows, with access notes and recorded examples."""
    rows = list(rows)
    examples = read(str(__package__), EXAMPLES)
    result = document(rows, TITLE, version, CREDENTIALS, examples, ABOUT)
    path_of = templates(rows)
    for row in rows:
        if row.path.startswith(MANAGEMENT):
            operation = result["paths"][path_of[row.name]][row.method.lower()]
            operation["description"] += f" {PASSED[isinstance(row, Row) and row.public]}"
    return result
