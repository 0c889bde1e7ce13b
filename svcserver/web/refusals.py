"""What the OpenAPI document says of the ways in which features word their refusals.

The exceptions themselves are in ``kernel/refusals.py``; here is noted for each function that words
them (a row's ``refuse``) which shape it gives. A row's ``refusals`` are single statuses that it
words otherwise.

    @worded_as(NoteRefusal, bare_too=(401, 403))
    def refuse(status: int, refusal: Refusal) -> Answer: ...

It only describes: the decorated function stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from svcserver.web.routes import Refuse, bare


@frozen
class Wording:
    """How a function words refusals. A generated client cannot read the JSON of an empty body,
    so ``bare_too`` are the statuses that may also come without one; 503 always may.
    """

    name: str
    shape: Any = None  # of the body; None where there is none
    bare_too: tuple[int, ...] = ()


BARE = Wording("BareRefusal")
_WORDINGS: dict[Refuse, Wording] = {bare: BARE}


def worded_as(
    shape: Any, *, name: str = "", bare_too: tuple[int, ...] = ()
) -> Callable[[Refuse], Refuse]:
    """Note how the decorated function words refusals; ``name`` stands in the document, the
    shape's own where none is given.
    """

    def note(refuse: Refuse) -> Refuse:
        _WORDINGS[refuse] = Wording(name or shape.__name__, shape, bare_too)
        return refuse

    return note


def wording_of(refuse: Refuse) -> Wording:
    """How it words refusals; raises KeyError where nobody has noted that."""
    return _WORDINGS[refuse]
