"""The envelope that many replies of the game come in."""

from __future__ import annotations

from typing import Any, Generic, TypedDict, TypeVar

from svcserver.kernel.json import Json

P = TypeVar("P")


class Envelope(TypedDict, Generic[P]):
    """The envelope of many replies: what was asked for is the ``payload``. Nothing in the client
    acts on ``code``.
    """

    code: str | int | None
    message: str
    payload: P


class Empty(TypedDict):
    """An object without members (``{}``): the client wants one where there is nothing to say."""


NOTHING = Envelope[Empty]
"""The reply of a row that has nothing to say but that it is done."""


def envelope(payload: Any, *, code: Json = None, message: str = "OK") -> dict[str, Any]:
    """The reply with this payload. Spec: 1 §4 convention 5."""
    return {"code": code, "message": message, "payload": payload}
