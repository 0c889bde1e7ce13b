"""The shapes of error answers, for the OpenAPI document.

The exceptions themselves are in ``kernel/refusals.py``. A route's ``refuse`` function turns an
exception into an answer, and the decorator ``worded_as`` records the shape of these answers. A
route's field ``refusals`` overrides the shape for the statuses that it lists.
"""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from svcserver.web.routes import Refuse, bare


@frozen
class Wording:
    """The shape of a feature's error answers, and the name of this shape in OpenAPI.

    ``bare_too`` lists the statuses, besides 503, whose answers may also have an empty body.
    """

    name: str
    shape: Any = None  # of the body; None where there is none
    bare_too: tuple[int, ...] = ()


BARE = Wording("BareRefusal")
_WORDINGS: dict[Refuse, Wording] = {bare: BARE}


def worded_as(
    shape: Any, *, name: str = "", bare_too: tuple[int, ...] = ()
) -> Callable[[Refuse], Refuse]:
    """Return a decorator that records the shape of a ``refuse`` function's answers."""

    def note(refuse: Refuse) -> Refuse:
        _WORDINGS[refuse] = Wording(name or shape.__name__, shape, bare_too)
        return refuse

    return note


def wording_of(refuse: Refuse) -> Wording:
    """Return what ``worded_as`` recorded for ``refuse``; raises KeyError if it recorded nothing."""
    return _WORDINGS[refuse]
