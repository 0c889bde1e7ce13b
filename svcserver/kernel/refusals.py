"""The exceptions by which a rule refuses, one per HTTP status.

The front door (``web.front``) is the only place that turns them into an answer. What its body looks
like is up to the row's ``refuse``, a function (``metagame/replies.py`` has those that features
share) whose shapes stand in ``metagame/refusal_wire.py``. ``web/refusals.py`` tells the OpenAPI
document which function answers with which shape.
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
    """What the request names does not exist."""

    status = 404


class Conflict(Refusal):
    """The current state does not allow it."""

    status = 409


class Unanswered(Conflict):
    """Whoever was to do it has not said whether it did: it may have been done."""


class Gone(Refusal):
    """It existed, and its time is over."""

    status = 410


class TooLarge(Refusal):
    """The body is larger than the route takes."""

    status = 413


class TooMany(Refusal):
    """A rate or a count is used up."""

    status = 429


class Unavailable(Refusal):
    """A part we depend on cannot serve now; trying again later makes sense."""

    status = 503
