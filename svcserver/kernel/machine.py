"""Tickets of the machine, which authenticate ``svcctl`` and ``svc-stack`` to the metagame.

People authenticate with a second factor; the host's programs use tickets instead. A ticket has
three parts, separated by colons: the epoch seconds, the actor, and an HMAC-SHA256 of both and the
request. The HMAC's key is derived from the host's signing key. A program that can read the signing
key can act as any player even without tickets. A ticket permits one request (method and target)
for two minutes, and only from the same machine. Tickets are not stored. An example:

    1790000000:svcctl%3Aada:3f2c...
"""

import hmac
from urllib.parse import quote, unquote

from svcserver.kernel.headers import MACHINE
from svcserver.kernel.secrets import constant_time_equal, derived_key

LIVES_S = 120
LONGEST = 1_024  # characters; longer tickets are refused
SIGNING_KEY = "AUTH_SIGNING_PRIVKEY_B64"  # the setting in metagame.env that has the key
_PURPOSE = b"svc machine ticket 1"


def machine_headers(
    secret: str, actor: str, method: str, target: str, now: float
) -> dict[str, str]:
    """Return the header with the ticket of ``actor`` for a request; {} if ``secret`` is empty."""
    if not secret.strip():
        return {}
    claim = f"{int(now)}:{quote(actor, safe='')}"
    return {MACHINE.decode(): f"{claim}:{_mark(secret, claim, method, target.encode())}"}


def actor_of(secret: str, ticket: str, method: str, target: bytes, now: float) -> str | None:
    """Return the actor that the ticket names; None if the ticket is not valid for this request."""
    claim, _, mark = ticket.rpartition(":")
    at, _, actor = claim.partition(":")
    if not secret.strip() or len(ticket) > LONGEST or not (at.isascii() and at.isdigit()):
        return None
    if not constant_time_equal(_mark(secret, claim, method, target), mark):
        return None
    return unquote(actor) if abs(now - int(at)) <= LIVES_S else None


def _mark(secret: str, claim: str, method: str, target: bytes) -> str:
    key = derived_key(secret, _PURPOSE)
    message = b"\n".join((claim.encode("utf-8", "surrogatepass"), method.encode(), target))
    return hmac.digest(key, message, "sha256").hex()
