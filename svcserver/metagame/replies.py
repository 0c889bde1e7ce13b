"""The error bodies and reply envelopes that many features share."""

from collections.abc import Iterator
from contextlib import contextmanager

from svcserver.kernel.envelope import envelope
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.refusal_wire import CodedRefusal, WordedRefusal
from svcserver.web.refusals import worded_as
from svcserver.web.routes import Answer

# in the gateway's words
OUTCOME_UNKNOWN = Answer(502, {"error": "bad_gateway"})
BAD_JSON = Answer(400, {"error": "bad_request", "message": "the body is not JSON"})


@worded_as(CodedRefusal)
def coded(status: int, refusal: Refusal) -> Answer:
    """Return a reply with the body ``{code: '<status>', message}``. Spec: 1 §7 Store refusals."""
    return Answer(status, {"code": str(status), "message": refusal.message})


@worded_as(WordedRefusal, bare_too=(401, 403, 429))
def worded(status: int, refusal: Refusal) -> Answer:
    """Return a reply with the body ``{error: <code>, message}``. Spec: 2 §7.

    The body is empty for an error without a code, such as wrong credentials.
    """
    if not refusal.code:
        return Answer(status)
    return Answer(status, {"error": refusal.code, "message": refusal.message})


@contextmanager
def refused_as(code: str, *, coded: bool = False) -> Iterator[None]:
    """Replace the code of each refusal that is raised in the ``with`` block.

    If ``coded`` is true, the message begins with the refusal's original code.
    """
    try:
        yield
    except Refusal as error:
        message = f"{error.code}: {error.message}" if coded and error.code else error.message
        refusal = Refusal(message, code=code)
        refusal.status, refusal.recorded = error.status, error.recorded
        raise refusal from error


def enveloped(payload: Json, *, code: Json = None, message: str = "OK") -> Answer:
    """Return a 200 reply with the envelope that many routes use."""
    return Answer(200, envelope(payload, code=code, message=message))
