"""The exceptions that a rule raises to refuse a request, one for each HTTP status.

Only ``web.front`` turns these exceptions into replies. The route's ``refuse`` function makes the
body of the reply. ``metagame/replies.py`` has the ``refuse`` functions that several routes share.
``metagame/refusal_wire.py`` has the shapes of these bodies. ``web/refusals.py`` records the shapes
for OpenAPI.
"""


class Refusal(Exception):
    """A refusal that the specification documents.

    ``message`` is for the caller. ``code`` is the error code that some replies have.
    ``retry_after_s`` is the value of the ``Retry-After`` header, in whole seconds.
    """

    status = 400
    recorded = False  # True if the audit log already has this refusal

    def __init__(
        self, message: str = "", *, code: str = "", retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_after_s = retry_after_s


class Malformed(Refusal):
    """The request does not have the required shape or values."""


class Unauthenticated(Refusal):
    """The request has no credential, or an invalid one."""

    status = 401


class Forbidden(Refusal):
    """The caller is known, but is not allowed to do this."""

    status = 403


class Missing(Refusal):
    """The object that the request names does not exist."""

    status = 404


class Conflict(Refusal):
    """The current state does not allow the requested operation."""

    status = 409


class Unanswered(Conflict):
    """Another service has not answered; it may or may not have carried out the request."""


class Gone(Refusal):
    """The requested object existed, but has expired."""

    status = 410


class TooLarge(Refusal):
    """The body is larger than the route allows."""

    status = 413


class TooMany(Refusal):
    """A rate limit or a quota is exhausted."""

    status = 429


class Unavailable(Refusal):
    """A component that the service depends on is unavailable; a later retry may succeed."""

    status = 503
