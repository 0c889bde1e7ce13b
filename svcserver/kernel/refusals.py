"""The exceptions by which a rule refuses, one per HTTP status.

Only the front door (``web.front``) turns them into an answer. The row's ``refuse`` function decides
the body (``metagame/replies.py`` has the shared ones; their shapes are in
``metagame/refusal_wire.py``). ``web/refusals.py`` notes each function's shape for OpenAPI.
"""

from __future__ import annotations


class Refusal(Exception):
    """A refusal that the specification documents.

    ``message`` is for the caller, ``code`` the machine-readable word some replies carry,
    ``retry_after_s`` whole seconds for the ``Retry-After`` header.
    """

    status = 400
    recorded = False  # whether the audit log has this very refusal already

    def __init__(
        self, message: str = "", *, code: str = "", retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_after_s = retry_after_s


class Malformed(Refusal):
    """The request does not have the shape or the values it must have."""


class Unauthenticated(Refusal):
    """No credential, or one that proves nothing."""

    status = 401


class Forbidden(Refusal):
    """The caller is known but may not do this."""

    status = 403


class Missing(Refusal):
    """The object that the request names does not exist."""

    status = 404


class Conflict(Refusal):
    """The current state does not allow it."""

    status = 409


class Unanswered(Conflict):
    """The other process has not answered: it may have carried the request out."""


class Gone(Refusal):
    """It existed, and has expired."""

    status = 410


class TooLarge(Refusal):
    """The body is larger than the route takes."""

    status = 413


class TooMany(Refusal):
    """A rate or a quota is used up."""

    status = 429


class Unavailable(Refusal):
    """A part we depend on cannot serve now; trying again later makes sense."""

    status = 503
