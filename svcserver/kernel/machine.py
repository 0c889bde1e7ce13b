"""Tickets of the machine: by these ``svcctl`` and ``svc-stack`` prove to the metagame who they are.

The owner's second factor is for people; a program of the host has none. Whoever can read the
host's signing key may already be any player and write the database, so a ticket is a keyed hash
by a key derived from that one. It opens one method and target for two minutes, and only from the
machine itself (the gate looks at that). Nothing of it is stored anywhere:

    1790000000:svcctl%3Aada:3f2c...    epoch seconds, who acts, HMAC-SHA256 of both and the request
"""

from __future__ import annotations

import hmac
from urllib.parse import quote, unquote

from svcserver.kernel.headers import MACHINE
from svcserver.kernel.secrets import constant_time_equal, derived_key

LIVES_S = 120
LONGEST = 1_024  # characters of a ticket that is looked at
SIGNING_KEY = "AUTH_SIGNING_PRIVKEY_B64"  # the setting of metagame.env that it comes from
_PURPOSE = b"svc machine ticket 1"


def machine_headers(
    secret: str, actor: str, method: str, target: str, now: float
) -> dict[str, str]:
    """The header field that opens ``METHOD TARGET`` for ``actor``; none without a signing key."""
    if not secret.strip():
        return {}
    said = f"{int(now)}:{quote(actor, safe='')}"
    return {MACHINE.decode(): f"{said}:{_mark(secret, said, method, target.encode())}"}


def actor_of(secret: str, ticket: str, method: str, target: bytes, now: float) -> str | None:
    """Who acts by the ticket; None where it is not one of this machine for this request, now."""
    said, _, mark = ticket.rpartition(":")
    at, _, actor = said.partition(":")
    if not secret.strip() or len(ticket) > LONGEST or not (at.isascii() and at.isdigit()):
        return None
    if not constant_time_equal(_mark(secret, said, method, target), mark):
        return None
    return unquote(actor) if abs(now - int(at)) <= LIVES_S else None


def _mark(secret: str, said: str, method: str, target: bytes) -> str:
    key = derived_key(secret, _PURPOSE)
    asked = b"\n".join((said.encode("utf-8", "surrogatepass"), method.encode(), target))
    return hmac.digest(key, asked, "sha256").hex()
