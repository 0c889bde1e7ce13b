"""The envelope: the JSON object around the payload of a reply."""

from typing import Any, Generic, TypedDict, TypeVar

from svcserver.kernel.json import Json

P = TypeVar("P")


class Envelope(TypedDict, Generic[P]):
    """The JSON object around the payload of a reply. The client does not use ``code``."""

    code: str | int | None
    message: str
    payload: P


class Empty(TypedDict):
    """An object without members (``{}``), which the client expects as an empty payload."""


NOTHING = Envelope[Empty]
"""The reply of a route that only reports success."""


def envelope(payload: Any, *, code: Json = None, message: str = "OK") -> dict[str, Any]:
    """Return the envelope with this payload. Spec: 1 §4 convention 5."""
    return {"code": code, "message": message, "payload": payload}
