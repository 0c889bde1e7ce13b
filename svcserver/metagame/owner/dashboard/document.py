"""The OpenAPI document of the game: of this very server for admins, and for ``svcctl``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from svcserver.kernel.datafiles import read
from svcserver.metagame.access.credentials import CREDENTIALS
from svcserver.metagame.rows import Access
from svcserver.web.openapi import document
from svcserver.web.routes import Row

TITLE = "svc-metagame"
EXAMPLES = "examples.json"  # what the rows were sent and answered when the tests ran
EVERY_ROUTE = {  # settings that mount every route; all others that do so by themselves are on
    "BACKEND_HEALTH": "1",
    "ESCALATION_MODE": "real",
    "MATCHMAKING_CANCEL": "1",
    "STORE": "free",
}
MEANINGS: Mapping[Access, str] = {
    Access.NONE: "anybody; no credential is looked at.",
    Access.TOKEN: "a player by its token, or a game server by its key. A game server that acts"
    " for a player sends that player's token, too.",
    Access.PLAYER: "as `token`, but a player's token must be there: 403 for a game server that"
    " sends none.",
    Access.OPTIONAL_TOKEN: "anybody; without a valid player token the answer is empty.",
    Access.ACCOUNT_KEY: "whoever holds an account's key.",
    Access.ADMIN_KEY: "staff (helpers, moderators, owners) by their account key or by a session"
    " of the dashboard, and only on the machine of the server itself: 403 through the gateway"
    " or any other proxy.",
    Access.REGISTERED: "anybody; a valid account key or player token gets the whole answer,"
    " everybody else a shorter one.",
    Access.GAME_SERVER: "a game server by its key.",
    Access.ADMIN_OR_GAME_SERVER: "either of the two, as above.",
    Access.DIRECT: "anybody on the machine of the server itself, not through a proxy; no"
    " credential is looked at.",
}
ABOUT = f"""The backend of an online co-op monster-hunting game: accounts, characters, inventories,
progression, parties, friends, guilds and matchmaking. Its callers are the game client, the game
servers, the launcher, and the owner's dashboard, whose routes begin with `/svc/`. Most paths and
bodies are as the retired client (1.4.4) wants them, odd as they may be.

**To log in:** `POST /svc/api/Register` makes an account and hands out its account key, this once.
`POST /account/api/oauth/token` takes that key as `exchange_code` and gives a player token
(`access_token`) for a day. It goes with every later request as `Authorization: Bearer TOKEN`.

**Access** says with each route who may call it:

{"".join(f"- `{label}`: {said}{chr(10)}" for label, said in MEANINGS.items())}
**Paths** match in any letter case, with or without a slash at the end; HEAD works where GET does.

**Refusals** have a status of 4xx. What their body looks like differs between routes, as the client
has it; each route names the one it uses. 503 means that a part of the host is away, that the server
is full, or that it does not know whether a request that was sent twice has been done already: ask
again later, after as many seconds as the header Retry-After says where it is there.

**Stub progression:** an owner can give accounts everything instead of letting them earn it
(`PROGRESSION_MODE`, `PROGRESSION_REAL_ACCOUNTS`). Such an account reads fixed values, nothing that
is written for it is kept, and some routes are a 404 for it. What routes say of \"real progression\"
is of all other accounts.
"""


def describe(rows: Iterable[Row], version: str) -> dict[str, Any]:
    """The OpenAPI document of these rows, with who may ask and an example where one is kept."""
    examples = read(str(__package__), EXAMPLES)
    return document(rows, TITLE, version, CREDENTIALS, examples, ABOUT)
