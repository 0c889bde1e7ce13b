"""Bodies of refusals and envelopes of replies that many features share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from svcserver.kernel.envelope import envelope
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.refusal_wire import CodedRefusal, WordedRefusal
from svcserver.web.refusals import worded_as
from svcserver.web.routes import Answer

LOST = Answer(502, {"error": "bad_gateway"})  # as the gateway words it: nobody knows the outcome
BAD_JSON = Answer(400, {"error": "bad_request", "message": "the body is not JSON"})


@worded_as(CodedRefusal)
def coded(status: int, refusal: Refusal) -> Answer:
    """``{code: '<status>', message}``. Spec: 1 §7 Store refusals."""
    return Answer(status, {"code": str(status), "message": refusal.message})


@worded_as(WordedRefusal, bare_too=(401, 403, 429))
def worded(status: int, refusal: Refusal) -> Answer:
    """``{error: <code>, message}``, the refusal of nine management routes. Spec: 2 §7.

    A refusal without a code (of credentials) has an empty body.
    """
    if not refusal.code:
        return Answer(status)
    return Answer(status, {"error": refusal.code, "message": refusal.message})


@contextmanager
def refused_as(code: str, *, coded: bool = False) -> Iterator[None]:
    """What refuses inside is worded as ``code`` and keeps its status; ``coded``: its own code
    stands before its message.
    """
    try:
        yield
    except Refusal as why:
        message = f"{why.code}: {why.message}" if coded and why.code else why.message
        said = Refusal(message, code=code)
        said.status, said.recorded = why.status, why.recorded
        raise said from why


def enveloped(payload: Json, *, code: Json = None, message: str = "OK") -> Answer:
    """200 and the envelope many routes answer with."""
    return Answer(200, envelope(payload, code=code, message=message))
