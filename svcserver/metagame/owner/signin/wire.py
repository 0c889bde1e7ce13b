"""Request and reply shapes of the dashboard's session, and of the ways into it."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from attrs import field, frozen

from svcserver.kernel.shapes import pascal_case, spelled, text


class WhoIsIn(TypedDict):
    """The account that is signed in, and its role.

    ``Word`` comes once, with the cookie: the page sends it back in ``x-svc-dashboard``.
    """

    UserId: str
    Username: str
    Role: str
    Word: NotRequired[str]


class Ways(TypedDict):
    """How this account signs in to the dashboard: by its own key or another, with a code or
    without. The secret is a fresh one, which counts once a code of it was sent.
    """

    ownKey: bool
    secondFactor: bool
    secret: str
    address: str
    qr: list[str]


class OwnKey(TypedDict):
    """The only copy of the key; null where the account's own key opens the dashboard again."""

    key: str | None


@spelled(pascal_case)
@frozen
class OwnKeyWish:
    """Whether the account wants a key of its own for the dashboard."""

    on: bool


@spelled(pascal_case)
@frozen
class FactorWish:
    """A code, and the secret that it proves; no secret ends the second factor."""

    code: Annotated[str, text(1, 16)] = field(repr=False)
    secret: Annotated[str, text(0, 64)] = field(default="", repr=False)
