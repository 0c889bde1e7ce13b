"""The OpenAPI 3.1 document of a service as a dict, drawn from its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from attrs import NOTHING, field, frozen, has

from svcserver.kernel.shapes import Late, Mark, Schema, members
from svcserver.web.routes import Page, Row

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    Page: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    dict: {"type": "object"},
    list: {"type": "array", "items": {}},
}
_MEDIA = {str: "text/plain", Page: "text/html"}
_ANY_BODY: Schema = {"type": ["object", "array"]}


@frozen
class Credentials:
    """What callers of a service prove themselves with, for the document."""

    schemes: Mapping[str, Schema] = field(factory=dict)  # by name, as OpenAPI wants them
    taken: Mapping[str, Sequence[str]] = field(factory=dict)  # names by access label; "": none
    failures: Mapping[str, str] = field(factory=dict)  # what 500 means, by access label


def document(
    rows: Iterable[Row],
    title: str,
    version: str,
    credentials: Credentials | None = None,
    examples: Mapping[str, Mapping[str, Any]] | None = None,
) -> Schema:
    """The whole document; rows that share a path share its entry.

    ``examples`` holds by the name of a row bodies that were ``sent`` and ``answered``.
    """
    credentials = credentials or Credentials()
    schemas: dict[str, Schema] = {}
    paths: dict[str, Schema] = {}
    rows = sorted(rows, key=lambda one: (one.path, one.method))
    names = operation_names(rows)
    for row in rows:
        shown = (examples or {}).get(row.name, {})
        found = operation(row, names[row.name], schemas, credentials, shown)
        paths.setdefault(template(row.path), {})[row.method.lower()] = found
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": dict(credentials.schemes)},
    }


def template(path: str) -> str:
    """``/note/{id}`` of a row's ``/note/<id>``."""
    return re.sub(r"<(\w+)>", r"{\1}", path)


def operation_names(rows: Sequence[Row]) -> dict[str, str]:
    """By the name of a row, a name for functions of a generated client: ``parties_promote``.

    Made of what a row belongs to and its handler; where several have the same, of the method
    or at last a number, too.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for row in rows:
        plain = f"{tag(row)}_{row.handler.__name__}"
        others = (f"{plain}_{row.method.lower()}", *(f"{plain}_{n}" for n in range(2, len(rows))))
        found[row.name] = next(one for one in (plain, *others) if one not in taken)
        taken.add(found[row.name])
    return found


def operation(
    row: Row,
    name: str,
    schemas: dict[str, Schema],
    credentials: Credentials,
    examples: Mapping[str, Any] | None = None,
) -> Schema:
    """The operation object of a row; the named shapes it uses are added to ``schemas``."""
    success: Schema = {"description": "Success."}
    examples = examples or {}
    if row.reply is not None:
        kind = _MEDIA.get(row.reply, "application/json")
        success["content"] = {kind: _content(schema(row.reply, schemas), examples, "answered")}
    found: Schema = {
        "operationId": name,
        "tags": [tag(row)],
        "summary": (row.handler.__doc__ or "").strip().partition("\n")[0],
        "description": f"Access: {row.access}.",
        "security": [{name: []} if name else {} for name in credentials.taken.get(row.access, ())],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in row.parameters
        ]
        + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in row.query],
        "responses": {"2XX": success, "204": {"description": "Done; there is nothing to show."}}
        | refusals(credentials.failures.get(row.access, "")),
    }
    if row.body is not None:
        shape = schema(row.body, schemas) or _ANY_BODY
        content = _content(shape, examples, "sent")
        found["requestBody"] = {"content": {"application/json": content}}
    return found


def _content(shape: Schema, examples: Mapping[str, Any], which: str) -> Schema:
    return {"schema": shape} | ({"example": examples[which]} if which in examples else {})


def tag(row: Row) -> str:
    """What a row belongs to: the folder of the file that it stands in."""
    return row.handler.__module__.rpartition(".")[0].rpartition(".")[2]


def refusals(failure: str = "") -> Schema:
    """The error responses of a row; a status that is not named here is a defect.

    ``failure``: what 500 means, where it is no defect.
    """
    found = {
        "4XX": {"description": "A refusal; its body is worded as this feature words them."},
        "503": {"description": "The database cannot serve just now."},
    }
    if failure:
        found["500"] = {"description": failure}
    return found


def schema(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """The JSON schema of a type; an unknown type gives the empty schema, which allows anything."""
    if is_typeddict(kind) or (isinstance(kind, type) and has(kind)):
        if kind.__name__ not in schemas:
            schemas[kind.__name__] = {}  # first, so that a shape may hold itself
            schemas[kind.__name__] = _object(kind, schemas)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(origin):
        name = shape_name(kind)
        if name not in schemas:
            given = dict(zip(origin.__parameters__, inner, strict=True))
            schemas[name] = _object(origin, schemas, given)
        return {"$ref": f"#/components/schemas/{name}"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    return _made_of(origin, inner, schemas)


def shape_name(kind: Any) -> str:
    """What a generated client calls a type: ``TrackListEnvelope`` of ``Envelope[list[Track]]``."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is None:
        return f"{kind.__name__[0].upper()}{kind.__name__[1:]}"
    if origin in (Union, UnionType):
        return "Or".join(map(shape_name, inner))
    if origin in (list, tuple):
        return f"{shape_name(inner[0])}List"
    if origin is dict:
        return f"{shape_name(inner[1])}Map"
    if origin is Annotated:
        return shape_name(inner[0])
    return f"{''.join(map(shape_name, inner))}{shape_name(origin)}"


def _made_of(origin: Any, inner: tuple[Any, ...], schemas: dict[str, Schema]) -> Schema:
    if origin is Annotated:
        return _marked(inner[0], inner[1:], schemas)
    if origin in (NotRequired, Required, Late):
        return schema(inner[0], schemas)
    if origin in (Union, UnionType):
        return {"anyOf": [schema(one, schemas) for one in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(inner[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(inner[1], schemas)}
    return {}


def _marked(plain: Any, marks: tuple[Any, ...], schemas: dict[str, Schema]) -> Schema:
    found = schema(plain, schemas)
    for mark in marks:
        if isinstance(mark, Mark):
            found = mark.schema(found)
    return found


def _object(
    kind: Any, schemas: dict[str, Schema], given: Mapping[Any, Any] | None = None
) -> Schema:
    """``given``: what the parameters of a generic shape stand for."""
    if has(kind):
        shown = members(kind)
        hints = {key: one.type for key, one in shown.items()}
        required = [key for key, one in shown.items() if one.default is NOTHING]
    else:  # which cannot see NotRequired where annotations are kept as texts
        marked = get_type_hints(kind, include_extras=True)
        hints = {name: (given or {}).get(one, one) for name, one in marked.items()}
        required = [
            name
            for name in sorted(kind.__required_keys__)
            if get_origin(marked[name]) is not NotRequired
        ]
    return {
        "type": "object",
        "description": (kind.__doc__ or "").strip(),
        "properties": {name: schema(one, schemas) for name, one in hints.items()},
        "required": required,
    }
