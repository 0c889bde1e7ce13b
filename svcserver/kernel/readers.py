"""The compiler that turns a shape (``kernel.shapes``) into a function that validates JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import cattrs
from attrs import NOTHING, Attribute, Factory, fields, has

from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import (
    BAD_REQUEST,
    CODE,
    MESSAGE,
    MISSING,
    As,
    Late,
    LenientMark,
    Mark,
    Read,
    Unfit,
    members,
)

_CONVERTER = cattrs.Converter(detailed_validation=False)
_NAMES = {str: "a text", int: "a whole number", bool: "true or false"}


def reader(shape: Any) -> Callable[[Json], Any]:
    """Return a function that turns parsed JSON into a ``shape`` instance, or raises Malformed."""
    hook = _hook(shape)
    if getattr(hook, "__defaults__", None):  # one of our hooks, which need no type
        return cast(Callable[[Json], Any], hook)
    return lambda value: hook(value, shape)


def _hook(kind: Any) -> Read:
    if _is_choice(kind):  # cattrs would read a StrEnum like any string
        return _chosen(kind)
    return _CONVERTER.get_structure_hook(kind)


def _exactly(kind: type[Any]) -> Read:
    def read(value: Json, _: Any) -> Any:
        if type(value) is kind:
            return value
        raise Unfit(_NAMES[kind])

    return read


def _text(value: Json, _: Any) -> str:
    if type(value) is str and "\0" not in value:
        return value
    raise Unfit("a text")


def _number(value: Json, _: Any) -> float:
    if type(value) in (int, float):
        return float(value)
    raise Unfit("a number")


def _anything(value: Json, _: Any) -> Any:
    if value is MISSING:
        raise Unfit("present")
    return value


def _annotated(kind: Any) -> Read:
    plain, *marks = get_args(kind)
    own = [mark for mark in marks if isinstance(mark, Mark)]
    # an As replaces the type's own hook, and the type may have none
    read = _anything if own and isinstance(own[0], As) else _hook(plain)
    for mark in own:
        read = mark.around(read, plain, _hook)
    return read


def _listed(kind: Any) -> Read:
    read_entry, make = _hook(get_args(kind)[0]), get_origin(kind)

    def read(value: Json, _: Any) -> Any:
        if type(value) is not list:
            raise Unfit("a list")
        try:
            return make([read_entry(entry, _) for entry in value])
        except Unfit as error:
            raise Unfit(f"a list in which each entry is {error.wanted}") from None

    return read


def _mapping(kind: Any) -> Read:
    held = get_args(kind)[1]
    read_entry = None if held is Any else _hook(held)

    def read(value: Json, _: Any) -> Any:
        if type(value) is not dict:
            raise Unfit("an object")
        return (
            value
            if read_entry is None
            else {key: read_entry(entry, _) for key, entry in value.items()}
        )

    return read


def _chosen(kind: Any) -> Read:
    members_by_value = (
        {member.value: member for member in kind} if get_origin(kind) is None else None
    )
    allowed = (
        members_by_value
        if members_by_value is not None
        else {member: member for member in get_args(kind)}
    )
    wanted = "one of " + ", ".join(map(str, allowed))

    def read(value: Json, _: Any) -> Any:
        if type(value) is str and value in allowed:
            return allowed[value]
        raise Unfit(wanted)

    return read


def _either(kind: Any) -> Read:
    """Return a reader for a union type: it uses the first alternative that fits.

    The reader accepts null only if the union contains ``None``.
    """
    inner = [_hook(option) for option in get_args(kind) if option is not NoneType]
    takes_null = len(inner) < len(get_args(kind))
    only = inner[0] if len(inner) == 1 else None

    def read(value: Json, _: Any) -> Any:
        if value is None and takes_null:
            return None
        if only is not None:
            return only(value, _)
        wanted = []
        first_error: Malformed | None = None
        for read_option in inner:
            try:
                return read_option(value, _)
            except Unfit as error:
                wanted.append(error.wanted)
            except Malformed as error:  # a member of an object does not fit
                first_error = first_error or error
        raise first_error or Unfit(" or ".join(wanted))

    return read


def _late(kind: Any) -> Read:
    inner = _hook(get_args(kind)[0])
    return lambda value, _: Late(value, inner)


def _object(shape: type[Any]) -> Read:
    """Return a reader that passes an object's members to the constructor of ``shape``, in order.

    The reader is one compiled expression, because a loop over the members would make an inventory
    transaction 50 % slower.
    """
    by_name = members(shape)
    attributes = [
        (key, _member(key, attribute), _default(attribute)) for key, attribute in by_name.items()
    ]
    names: dict[str, Any] = {"shape": shape, "missing": MISSING}
    parts = []
    for at, (key, read_one, default) in enumerate(attributes):
        optional = _plain_of_optional(by_name[key].type)
        if optional is not None and default is None:  # saves a call for the most common union
            names |= {f"key{at}": key, f"read{at}": optional}
            sent = f"(sent := get(key{at}))"
            parts.append(f"None if {sent} is None else read{at}(sent, None)")
            continue
        names |= {f"key{at}": key, f"read{at}": read_one, f"default{at}": default}
        if default is NOTHING:
            parts.append(f"read{at}(get(key{at}, missing), None)")
        else:
            sent = f"(sent := get(key{at}, missing))"
            parts.append(f"default{at} if {sent} is missing else read{at}(sent, None)")
    if len(by_name) < len(fields(shape)):
        parts.append("value")
    text = f"lambda value, get: shape({', '.join(parts)})"
    make = eval(text, names)  # noqa: S307 - of our own class alone

    def read(value: Json, _: Any = None) -> Any:
        if type(value) is not dict:
            raise Unfit("an object")
        try:
            return make(value, value.get)
        except Unfit:
            raise _worded(value, by_name, attributes) from None

    return read


def _plain_of_optional(kind: Any) -> Read | None:
    """For a type like ``int | None``, return the reader of ``int``; otherwise, return None."""
    alternatives = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    plain = [option for option in alternatives if option is not NoneType]
    if len(plain) != 1 or len(alternatives) != 2 or get_origin(plain[0]) is Late:
        return None
    return _hook(plain[0])


def _member(key: str, attribute: Attribute[Any]) -> Read:
    late = next(
        (kind for kind in (attribute.type, *get_args(attribute.type)) if get_origin(kind) is Late),
        None,
    )
    if late is not None:
        inner, takes_null = _hook(get_args(late)[0]), late is not attribute.type
        return lambda value, _: None if value is None and takes_null else Late(value, inner, key)
    if get_origin(attribute.type) is Annotated:
        plain, *marks = get_args(attribute.type)
        rest = [mark for mark in marks if not isinstance(mark, LenientMark)]
        if len(rest) < len(marks):
            strict = Annotated[(plain, *rest)] if rest else plain
            default = _default(attribute)
            if default is None or default is NOTHING:  # null gives None in any case
                return LenientMark.otherwise(_plain_of_optional(strict) or _hook(strict), None)
            return LenientMark.otherwise(_hook(strict), default)
    return _hook(attribute.type)


def _default(attribute: Attribute[Any]) -> Any:
    if isinstance(attribute.default, Factory):  # type: ignore[arg-type]  # attrs types it as a function
        raise TypeError(
            f"{attribute.name}: the default must be an immutable value, not an attrs.Factory"
        )
    return attribute.default


def _worded(
    value: dict[str, Json],
    by_name: Mapping[str, Attribute[Any]],
    attributes: list[tuple[str, Read, Any]],
) -> Malformed:
    """Return the error for the first member that does not fit its type.

    To find this member, the members are read again, one by one.
    """
    for key, read_one, default in attributes:
        sent = value.get(key, MISSING)
        if sent is MISSING and default is not NOTHING:
            continue
        try:
            read_one(sent, None)
        except Unfit as error:
            words = by_name[key].metadata
            message = words.get(MESSAGE) or f"{key} must be {error.wanted}"
            return Malformed(message, code=words.get(CODE, BAD_REQUEST))
    raise AssertionError(
        "an object was refused although all of its fields are valid; please report this bug"
    )


def _comes_from(*origins: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) in origins


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum))


for _kind, _read in ((str, _text), (float, _number), (int, _exactly(int)), (bool, _exactly(bool))):
    _CONVERTER.register_structure_hook(_kind, _read)
_CONVERTER.register_structure_hook_func(lambda kind: kind is Any or kind is object, _anything)
for _fits, _factory in (
    (has, _object),
    (_comes_from(list, tuple), _listed),
    (_comes_from(dict), _mapping),
    (_comes_from(Annotated), _annotated),
    (_comes_from(Late), _late),
    (_comes_from(Union, UnionType), _either),
):
    _CONVERTER.register_structure_hook_factory(_fits, _factory)
