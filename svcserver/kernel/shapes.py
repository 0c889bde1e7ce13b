"""Shapes: attrs classes that declare a request body, for validation and for OpenAPI.

    @spelled(camel_case)
    @frozen
    class ItemRequest:
        character_id: str                        # "characterId": a string, or 400
        quantity: WholeNumber                    # accepts 2; reads 2.0 as 2
        note: Lenient[str] = ""                  # anything but a string counts as missing
        items: Skipping[StackRequest] = ()          # invalid entries are left out
        data: Late[str]                          # checked when the handler calls ``parse_value``

``kernel.readers`` compiles such a class into a function that validates a body. ``web.openapi``
generates the OpenAPI document from the same class. Types are strict unless their name says
otherwise. ``1`` is not a string, ``true`` is not a number, and null is accepted only if the type
includes ``None``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Generic, TypeVar, get_args

from attrs import Attribute, define, field, fields, resolve_types

from svcserver.kernel.digits import MAX_DIGITS, MAX_WHOLE, whole_in
from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed

T = TypeVar("T")
Schema = dict[str, Any]
Read = Callable[[Any, Any], Any]
"""The signature of cattrs hooks: the value, and its type, which our hooks ignore."""
Hook = Callable[[Any], Read]
"""A function that returns the reader of a type."""

MISSING: Final = object()  # passed to a reader for a member that was not sent
KEYS, KEY, CODE, MESSAGE = "__wire_key__", "wire key", "refusal code", "refusal message"
FURTHER = "__further_members__"
BAD_REQUEST = "bad_request"


class Unfit(Malformed):
    """The error for a value that does not fit its type; ``wanted`` describes a value that fits."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"the body must be {wanted}", code=BAD_REQUEST)
        self.wanted = wanted


# -- spelling ------------------------------------------------------------------


def camel_case(name: str) -> str:
    """Return an attribute's JSON key: ``characterId`` for ``character_id``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def pascal_case(name: str) -> str:
    """Return an attribute's JSON key: ``CharacterId`` for ``character_id``."""
    return "".join(word.capitalize() for word in name.split("_"))


def spelled(how: Callable[[str], str]) -> Callable[[type[T]], type[T]]:
    """Return a class decorator; ``how`` makes the JSON key of a member from its attribute name."""

    def mark(shape: type[T]) -> type[T]:
        setattr(shape, KEYS, staticmethod(how))
        return shape

    return mark


def sent_as(key: str = "", *, message: str = "", code: str = "") -> dict[str, str]:
    """Return a field's metadata: its JSON key, and the error message and code for a bad value."""
    values = {KEY: key, MESSAGE: message, CODE: code}
    return {name: value for name, value in values.items() if value}


def key_of(shape: type[Any], attribute: Attribute[Any]) -> str:
    """Return the JSON key of a member."""
    how: Callable[[str], str] = getattr(shape, KEYS, str)
    return attribute.metadata.get(KEY) or how(attribute.name)


def members(shape: type[Any]) -> Mapping[str, Attribute[Any]]:
    """Map each JSON key of a shape to its member."""
    return {
        key_of(shape, attribute): attribute
        for attribute in _resolved(shape)
        if attribute.type is not Itself
    }


def _resolved(shape: type[Any]) -> tuple[Attribute[Any], ...]:
    resolve_types(shape, include_extras=True)
    attributes: tuple[Attribute[Any], ...] = fields(shape)
    return attributes


def further_members(why: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator for a reply that may have members that its shape does not declare.

    ``why`` gives the reason. Tests require all other replies to have exactly the members of their
    shapes (``tests/support/closed.py``).
    """

    def mark(shape: type[T]) -> type[T]:
        setattr(shape, FURTHER, why)
        return shape

    return mark


# -- named types -----------------------------------------------------------------


class Mark:
    """An argument of ``Annotated`` that changes how a value is read or documented."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        """Return a function that reads values of the annotated type.

        ``kind`` is the type without annotations. For the first annotation, ``read`` reads values of
        ``kind``; for each later one, ``read`` is what the previous annotation returned.
        """
        return read

    def schema(self, plain: Schema) -> Schema:
        """Return the annotated type's JSON schema; ``plain`` is the schema of the bare type."""
        return plain


class Documented(Mark):
    """An annotation that adds the dict ``more`` to the JSON schema, and changes nothing else."""

    def __init__(self, more: Schema) -> None:
        self.more = more

    def schema(self, plain: Schema) -> Schema:
        return {**plain, **self.more}


class Shown(Mark):
    """An annotation that replaces the schema with one that client generators understand."""

    def __init__(self, documented: Schema) -> None:
        self.documented = documented

    def schema(self, plain: Schema) -> Schema:
        return dict(self.documented)


class As(Mark):
    """An annotation with its own schema and its own function ``read``, which raises Unfit."""

    def __init__(self, read: Read, documented: Schema) -> None:
        self.read, self.documented = read, documented

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return self.read

    def schema(self, plain: Schema) -> Schema:
        return dict(self.documented)


def whole(low: int = -MAX_WHOLE, high: int = MAX_WHOLE, *, digits: int = 0) -> As:
    """Return a type for whole numbers, including ``2.0``.

    If ``digits`` is not 0, the type also allows a string of at most ``digits`` digits.
    """
    wanted = f"a whole number from {low} to {high}"
    if high == MAX_WHOLE:
        wanted = "a whole number" if low == -MAX_WHOLE else f"a whole number of at least {low}"

    def read(value: Json, _: Any) -> int:
        if type(value) is not int:
            value = _as_whole(value, digits)
            if value is None:
                raise Unfit(wanted)
        if low <= value <= high:
            number: int = value
            return number
        raise Unfit(wanted)

    shown: Schema = {"type": "integer"}
    return As(read, {"anyOf": [shown, {"type": "string"}]} if digits else shown)


def _as_whole(value: Json, digits: int) -> int | None:
    if type(value) is float:
        return int(value) if value.is_integer() else None
    return whole_in(value, digits) if type(value) is str else None


def text_where(fits: Callable[[str], bool], wanted: str) -> As:
    """Return a type for strings that pass ``fits``; ``wanted`` describes a valid string."""

    def read(value: Json, _: Any) -> str:
        if type(value) is str and fits(value):
            return value
        raise Unfit(wanted)

    return As(read, {"type": "string"})


def text(shortest: int, longest: int | None = None) -> As:
    """Return a type for strings of limited length without NUL characters.

    PostgreSQL cannot store NUL characters.
    """
    wanted = f"a text of {shortest} to {longest} characters"
    if longest is None:
        longest, wanted = sys.maxsize, f"a text of at least {shortest} characters"

    def read(value: Json, _: Any) -> str:
        if type(value) is str and shortest <= len(value) <= longest and "\0" not in value:
            return value
        raise Unfit(wanted)

    return As(read, {"type": "string"})


def plain_text(shortest: int, longest: int) -> As:
    """Return a type for strings that people read: one line without control characters."""
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
Moment = Annotated[str, Documented({"format": "date-time"})]
"""For replies: a time in the format of ``kernel.times.iso``, never empty."""
TextWithNul = Annotated[str, As(_any_text, {"type": "string"})]
"""For strings in which NUL is allowed: they stay inside JSON, or are only looked up."""


class LenientMark(Mark):
    """The annotation of a ``Lenient`` type: a value that does not fit counts as missing."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return self.otherwise(read, None)

    @staticmethod
    def otherwise(read: Read, default: Any) -> Read:
        """Return a function like ``read`` that replaces an invalid value with ``default``."""
        if read is _any_text:
            return _text_or(default)

        def lenient(value: Json, _: Any) -> Any:
            try:
                return read(value, _)
            except Malformed:
                return default

        return lenient


class Or(Mark):
    """An annotation that replaces an invalid value with ``value``."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return LenientMark.otherwise(read, self.value)


class SkippingMark(Mark):
    """The annotation of a ``Skipping`` list: invalid entries are left out."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        read_entry = hook(get_args(kind)[0])

        def skipping(value: Json, _: Any) -> tuple[Any, ...]:
            if type(value) is not list:
                raise Unfit("a list")
            entries = []
            for entry in value:
                try:
                    entries.append(read_entry(entry, _))
                except Malformed:
                    continue
            return tuple(entries)

        return skipping


class First(Mark):
    """An annotation that keeps only the first ``count`` entries of a list."""

    def __init__(self, count: int) -> None:
        self.count = count

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        return lambda value, _: read(value[: self.count] if type(value) is list else value, _)


class AtMost(Mark):
    """An annotation that rejects a list of more than ``count`` entries."""

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
    """The annotation of an ``OrEmpty`` body: anything but an object counts as ``{}``."""

    def around(self, read: Read, kind: Any, hook: Hook) -> Read:
        def read_object(value: Json, kind: Any = None) -> Any:
            return read(value if type(value) is dict else {}, kind)

        return read_object


class ItselfMark(Mark):
    """The annotation of a field that contains the whole JSON object (see ``Itself``)."""


class Opaque(Mark):
    """An annotation for a part of a shape that may be any JSON; ``why`` gives the reason."""

    def __init__(self, why: str) -> None:
        self.why = why

    def schema(self, plain: Schema) -> Schema:
        return plain | {"description": self.why}


Lenient = Annotated[T, LenientMark()]
"""A value that does not fit counts as missing: the member's default, or None without one.

If a member has no default, OpenAPI shows it as required, because a rule refuses None.
"""
Skipping = Annotated[tuple[T, ...], SkippingMark()]
"""A list; entries that do not fit are left out."""
OrEmpty = Annotated[T, OrEmptyMark()]
"""A body that may be any JSON; anything but an object counts as an empty object."""
AsSent = Annotated[Json, Opaque("The client's data, stored and returned without a check.")]
"""A value that only the game client understands. A contract test finds parts of bodies
that accept any JSON without giving a reason; only this type and ``Opaque`` may accept any JSON."""
Ignored = Annotated[Json, Opaque("A value of the client, which changes nothing.")]
Itself = Annotated[dict[str, Any], ItselfMark()]
"""The object as sent, with all its keys; allowed only as the last member of a shape."""


@define  # not frozen, for speed: one is created for every request of its routes
class Late(Generic[T]):
    """A request body, or one of its values, that is checked only when ``parse_value`` is called.

    A route uses this type if another rule must be applied before the check.
    """

    sent: Json = field(repr=False)
    reads: Read = field(repr=False)
    name: str = "the body"

    def parse_value(self) -> T:
        """Check and return the value; raises Malformed."""
        try:
            value: T = self.reads(self.sent, None)
        except Unfit as error:
            raise Malformed(f"{self.name} must be {error.wanted}", code=BAD_REQUEST) from None
        return value
