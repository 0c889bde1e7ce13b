"""Shapes: attrs classes that declare a request body, for validation and for OpenAPI.

    @spelled(camel_case)
    @frozen
    class ItemWish:
        character_id: str                        # "characterId": a text, or 400
        quantity: WholeNumber                    # 2, and 2.0 as 2
        note: Lenient[str] = ""                  # what is no text counts as missing
        items: Skipping[StackWish] = ()          # entries that do not fit are left out
        data: Late[str]                          # read when the handler asks for it

``kernel.readers`` compiles such a class into a function; the OpenAPI document is drawn from
the same class (``web.openapi``). A type here is strict unless its name says otherwise: ``1`` is
no text, ``true`` is no number, null is only ``None`` where the type says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeVar,
    get_args,
)

from attrs import Attribute, define, field, fields, resolve_types

from svcserver.kernel.digits import MAX_DIGITS, MAX_WHOLE, whole_in
from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed

T = TypeVar("T")
Schema = dict[str, Any]
Read = Callable[[Any, Any], Any]
"""The signature that cattrs gives its hooks: the value, and its type, which ours ignore."""
Hook = Callable[[Any], Read]
"""Gives the reading function of a type."""

MISSING: Final = object()  # handed to a reader in place of a member that was not sent
KEYS, KEY, CODE, MESSAGE = "__wire_key__", "wire key", "refusal code", "refusal message"
FURTHER = "__further_members__"
BAD_REQUEST = "bad_request"


class Unfit(Malformed):
    """A value is not ``wanted``; a reader further out, which knows its name, words the refusal."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"the body must be {wanted}", code=BAD_REQUEST)
        self.wanted = wanted


# -- spelling ------------------------------------------------------------------


def camel_case(name: str) -> str:
    """A wire key of an attribute's name: ``characterId`` of ``character_id``."""
    head, *rest = name.split("_")
    return head + "".join(one.capitalize() for one in rest)


def pascal_case(name: str) -> str:
    """A wire key of an attribute's name: ``CharacterId`` of ``character_id``."""
    return "".join(one.capitalize() for one in name.split("_"))


def spelled(how: Callable[[str], str]) -> Callable[[type[T]], type[T]]:
    """A class decorator: how the names of its members are spelled on the wire."""

    def mark(shape: type[T]) -> type[T]:
        setattr(shape, KEYS, staticmethod(how))
        return shape

    return mark


def sent_as(key: str = "", *, message: str = "", code: str = "") -> dict[str, str]:
    """``field(metadata=sent_as("UserID"))``: a key of its own, or how its refusal is worded."""
    said = {KEY: key, MESSAGE: message, CODE: code}
    return {name: one for name, one in said.items() if one}


def key_of(shape: type[Any], one: Attribute[Any]) -> str:
    """The name of a member on the wire."""
    how: Callable[[str], str] = getattr(shape, KEYS, str)
    return one.metadata.get(KEY) or how(one.name)


def members(shape: type[Any]) -> Mapping[str, Attribute[Any]]:
    """The members that are read by their name, by that name."""
    return {key_of(shape, one): one for one in _resolved(shape) if one.type is not Itself}


def _resolved(shape: type[Any]) -> tuple[Attribute[Any], ...]:
    resolve_types(shape, include_extras=True)
    found: tuple[Attribute[Any], ...] = fields(shape)
    return found


def further_members(why: str) -> Callable[[type[T]], type[T]]:
    """A class decorator: objects of this shape may hold more than it names, and ``why``.

    Tests compare every other reply with its shape as a closed one (``tests/support/closed.py``).
    """

    def mark(shape: type[T]) -> type[T]:
        setattr(shape, FURTHER, why)
        return shape

    return mark


# -- named types -----------------------------------------------------------------


class Mark:
    """An argument of ``Annotated`` that changes how a value is read and documented."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        """The reading function of a ``kind`` with this mark; ``read`` is the one without it."""
        return read

    def schema(self, plain: Schema) -> Schema:
        """The JSON schema with this mark; ``plain`` is the one without it."""
        return plain


class Told(Mark):
    """Documented with ``more``, and read without it: a rule whose refusal is worded elsewhere."""

    def __init__(self, more: Schema) -> None:
        self.more = more

    def schema(self, plain: Schema) -> Schema:
        return {**plain, **self.more}


class Shown(Mark):
    """Documented as ``documented``, and read without it: what generators of clients understand."""

    def __init__(self, documented: Schema) -> None:
        self.documented = documented

    def schema(self, plain: Schema) -> Schema:
        return dict(self.documented)


class As(Mark):
    """Read by ``read``, which raises Unfit; documented as ``documented``."""

    def __init__(self, read: Read, documented: Schema) -> None:
        self.read, self.documented = read, documented

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return self.read

    def schema(self, plain: Schema) -> Schema:
        return dict(self.documented)


def whole(low: int = -MAX_WHOLE, high: int = MAX_WHOLE, *, digits: int = 0) -> As:
    """A whole number, also written ``2.0``; with ``digits`` also as a text of at most so many."""
    wanted = f"a whole number from {low} to {high}"
    if high == MAX_WHOLE:
        wanted = "a whole number" if low == -MAX_WHOLE else f"a whole number of at least {low}"

    def read(value: Json, _: Any) -> int:
        if type(value) is not int:
            value = _as_whole(value, digits)
            if value is None:
                raise Unfit(wanted)
        if low <= value <= high:
            found: int = value
            return found
        raise Unfit(wanted)

    shown: Schema = {"type": "integer"}
    return As(read, {"anyOf": [shown, {"type": "string"}]} if digits else shown)


def _as_whole(value: Json, digits: int) -> int | None:
    if type(value) is float:
        return int(value) if value.is_integer() else None
    return whole_in(value, digits) if type(value) is str else None


def text_where(fits: Callable[[str], bool], wanted: str) -> As:
    """A member's type: a text that passes ``fits``; ``wanted`` says what it should have been."""

    def read(value: Json, _: Any) -> str:
        if type(value) is str and fits(value):
            return value
        raise Unfit(wanted)

    return As(read, {"type": "string"})


def text(shortest: int, longest: int | None = None) -> As:
    """A text of so many characters, without NUL, which no text column of PostgreSQL takes."""
    wanted = f"a text of {shortest} to {longest} characters"
    if longest is None:
        longest, wanted = sys.maxsize, f"a text of at least {shortest} characters"

    def read(value: Json, _: Any) -> str:
        if type(value) is str and shortest <= len(value) <= longest and "\0" not in value:
            return value
        raise Unfit(wanted)

    return As(read, {"type": "string"})


def plain_text(shortest: int, longest: int) -> As:
    """A text that people read: as ``text``, in one line and without control characters."""
    return text_where(
        lambda value: shortest <= len(value) <= longest and is_plain(value),
        f"a text of {shortest} to {longest} characters without {NOT_PLAIN}",
    )


def _any_text(value: Json, _: Any) -> str:
    if type(value) is str:
        return value
    raise Unfit("a text")


def _text_or(default: Any) -> Read:
    def read(value: Json, _: Any) -> Any:
        return value if type(value) is str else default

    return read


WholeNumber = Annotated[int, whole()]
Count = Annotated[int, whole(0)]
CountOrDigits = Annotated[int, whole(0, digits=MAX_DIGITS)]
Name = Annotated[str, text_where(is_name, "an id of 1 to 128 characters")]
Moment = Annotated[str, Told({"format": "date-time"})]
"""For replies: a time as ``kernel.times.iso`` writes it, never empty; made clients parse it."""
TextWithNul = Annotated[str, As(_any_text, {"type": "string"})]
"""For texts in which NUL is allowed: those that stay inside JSON, or are only looked up."""


class LenientMark(Mark):
    """How a value marked ``Lenient`` is read and described."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return self.otherwise(read, None)

    @staticmethod
    def otherwise(read: Read, default: Any) -> Read:
        """As ``read``, but ``default`` in place of a value that does not fit."""
        if read is _any_text:
            return _text_or(default)

        def lenient(value: Json, _: Any) -> Any:
            try:
                return read(value, _)
            except Malformed:
                return default

        return lenient


class Or(Mark):
    """What does not fit is read as ``value``, which the rules refuse in their own words."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return LenientMark.otherwise(read, self.value)


class SkippingMark(Mark):
    """How a value marked ``Skipping`` is read and described."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        one_of = hook(get_args(kind)[0])

        def skipping(value: Json, _: Any) -> tuple[Any, ...]:
            if type(value) is not list:
                raise Unfit("a list")
            found = []
            for one in value:
                try:
                    found.append(one_of(one, _))
                except Malformed:
                    continue
            return tuple(found)

        return skipping


class First(Mark):
    """Only the first ``count`` entries of a list are looked at."""

    def __init__(self, count: int) -> None:
        self.count = count

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return lambda value, _: read(value[: self.count] if type(value) is list else value, _)


class AtMost(Mark):
    """A list of more than ``count`` entries does not fit."""

    def __init__(self, count: int) -> None:
        self.count = count

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        def bounded(value: Json, _: Any) -> Any:
            if type(value) is list and len(value) > self.count:
                raise Unfit(f"a list of at most {self.count}")
            return read(value, _)

        return bounded

    def schema(self, plain: Schema) -> Schema:
        return plain | {"maxItems": self.count}


class OrEmptyMark(Mark):
    """How a value marked ``OrEmpty`` is read and described."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        def read_object(value: Json, kind: Any = None) -> Any:
            return read(value if type(value) is dict else {}, kind)

        return read_object


class ItselfMark(Mark):
    """How a value marked ``Itself`` is read and described."""


class Opaque(Mark):
    """A part of a shape that has no shape of its own, and ``why``."""

    def __init__(self, why: str) -> None:
        self.why = why

    def schema(self, plain: Schema) -> Schema:
        return plain | {"description": self.why}


Lenient = Annotated[T, LenientMark()]
"""What does not fit counts as missing: the member's default, or None where it has none.

Without a default the member is documented as required although it is not: a rule refuses None.
"""
Skipping = Annotated[tuple[T, ...], SkippingMark()]
"""A list; entries that do not fit are left out."""
OrEmpty = Annotated[T, OrEmptyMark()]
"""A row's body that may be anything: what is no object counts as one without members."""
AsSent = Annotated[
    Json, Opaque("What the game client sent; kept and given back, never looked into.")
]
"""What the game client knows alone. A contract test looks for parts of bodies that are anything
without saying why: this one and ``Opaque`` are the only means."""
Ignored = Annotated[Json, Opaque("What the game client says here changes nothing.")]
Itself = Annotated[dict[str, Any], ItselfMark()]
"""The object as sent with every key of it; only as the last member of a shape."""


@define  # not frozen: one is made for every request of its routes
class Late(Generic[T]):
    """A body or a member that is read when ``read`` is called, for the routes where a rule
    is asked first: a save answers 404, 409, then 400. ``name`` words the refusal.
    """

    sent: Json = field(repr=False)
    reads: Read = field(repr=False)
    name: str = "the body"

    def read(self) -> T:
        """The value, checked only now; raises Malformed."""
        try:
            found: T = self.reads(self.sent, None)
        except Unfit as why:
            raise Malformed(f"{self.name} must be {why.wanted}", code=BAD_REQUEST) from None
        return found
