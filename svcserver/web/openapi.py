"""The OpenAPI 3.1 document of a service as a dict, drawn from its rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from attrs import NOTHING, field, frozen, has

from svcserver.kernel.shapes import FURTHER, Late, Mark, Schema, members
from svcserver.web.openapi_paths import rename, templates
from svcserver.web.refusals import BARE, wording_of
from svcserver.web.routes import Media, Needed, NoContent, Page, Redirect, Row

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    Page: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    # not the type "null" alone, which most generators cannot name in their language
    NoneType: {"type": ["string", "null"], "const": None},
    dict: {"type": "object"},
    list: {"type": "array", "items": {}},
}
_NULL: Schema = {"type": "null"}  # as one of several
_MEDIA = {str: "text/plain", Page: "text/html"}
_ANY_BODY: Schema = {"type": ["object", "array"]}
_FORM = "application/x-www-form-urlencoded"
_TOO_LARGE = "TooLarge"
_NO_BODY: Schema = {"description": "Success, without a body."}
PAGE: Schema = {"text/html": {"schema": {"type": "string"}}}
FILES = ("routes", "feature")  # of a feature that is a folder
NEXT = "\n\n"  # between paragraphs


@frozen
class Credentials:
    """What callers of a service prove themselves with, for the document."""

    schemes: Mapping[str, Schema] = field(factory=dict)  # by name, as OpenAPI wants them
    # by access label the ways to prove it, each by names of ``schemes``; (): with nothing
    taken: Mapping[str, Sequence[tuple[str, ...]]] = field(factory=dict)
    failures: Mapping[str, Schema] = field(factory=dict)  # a 500 that is no defect, by access label


def document(
    rows: Iterable[Row],
    title: str,
    version: str,
    credentials: Credentials | None = None,
    examples: Mapping[str, Mapping[str, Any]] | None = None,
    about: str = "",
) -> Schema:
    """The whole document; rows that share a path share its entry.

    ``examples`` holds by the name of a row bodies that were ``sent`` and ``answered``;
    ``about`` tells readers what the service is and how to use it.
    """
    credentials = credentials or Credentials()
    schemas: dict[str, Schema] = {}
    paths: dict[str, Schema] = {}
    responses = shared_responses()
    rows = sorted(rows, key=lambda one: (one.path, one.method))
    check_names(rows)
    path_of = templates(rows)
    for row in rows:
        shown = (examples or {}).get(row.name, {})
        found = operation(row, schemas, credentials, shown)
        for name, one in refusal_responses(row, schemas).items():
            if responses.setdefault(name, one) != one:
                raise ValueError(f"two wordings are called {name}")
        rename(found["parameters"], path_of[row.name])
        paths.setdefault(path_of[row.name], {})[row.method.lower()] = found
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": about},
        "servers": [{"url": "/", "description": "The server that this document is of."}],
        "tags": tags(rows),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": responses,
            "securitySchemes": dict(credentials.schemes),
        },
    }


def operation_name(row: Row) -> str:
    """A name for functions of a generated client: ``parties_promote``.

    Made of what a row belongs to and its handler alone, so that it never depends on which
    other rows are mounted.
    """
    return f"{tag(row)}_{row.handler.__name__}"


def check_names(rows: Iterable[Row]) -> None:
    """Raise ValueError where a name would mean two rows: one of their handlers needs another."""
    taken: dict[str, str] = {}
    for row in rows:
        name = operation_name(row)
        if taken.setdefault(name, row.name) != row.name:
            raise ValueError(f"{row.name} and {taken[name]} are both called {name}")


def operation(
    row: Row,
    schemas: dict[str, Schema],
    credentials: Credentials,
    examples: Mapping[str, Any] | None = None,
) -> Schema:
    """The operation object of a row; the named shapes it uses are added to ``schemas``."""
    examples = examples or {}
    first, _, rest = plain(row.handler.__doc__ or "").partition(NEXT)
    found: Schema = {
        "operationId": operation_name(row),
        "tags": [tag(row)],
        "summary": " ".join(first.replace("`", "").split()),
        "description": f"{rest}{NEXT}Access: {row.access}.".strip(),
        "security": [
            {name: [] for name in together} for together in credentials.taken.get(row.access, ())
        ],
        "parameters": parameters(row, schemas),
        "responses": successes(row, schemas, examples)
        | refusals(row, schemas, credentials.failures.get(row.access)),
    }
    if row.body is not None:
        shape = schema(row.body, schemas) or _ANY_BODY
        content = _content(shape, examples, "sent")
        kinds = {"application/json": content} | ({_FORM: {"schema": shape}} if row.form else {})
        needed = {"required": True} if _needed(shape, schemas) else {}
        found["requestBody"] = {"content": kinds, **needed}
    return found


def parameters(row: Row, schemas: dict[str, Schema]) -> list[Schema]:
    """What a row takes in its path, its query and its headers."""
    path = {name: Needed(row.path_types.get(name, str)) for name in row.parameters}
    return [
        _parameter(name, place, kind, schemas)
        for place, kinds in (("path", path), ("query", row.query), ("header", row.headers))
        for name, kind in kinds.items()
    ]


def _parameter(name: str, place: str, kind: Any, schemas: dict[str, Schema]) -> Schema:
    needed = isinstance(kind, Needed)
    shape = schema(kind.kind if needed else kind, schemas)
    found: Schema = {"name": name, "in": place, "schema": shape}
    return found | {"required": True} if needed else found


def _needed(shape: Schema, schemas: Mapping[str, Schema]) -> bool:
    """Whether the empty object, as which no body at all counts, does not fit a shape."""
    if "$ref" in shape:
        shape = schemas[shape["$ref"].rpartition("/")[2]]
    if "anyOf" in shape:
        return all(_needed(one, schemas) for one in shape["anyOf"])
    return bool(shape.get("required")) or shape.get("type") == "array"


def _content(shape: Schema, examples: Mapping[str, Any], which: str) -> Schema:
    return {"schema": shape} | ({"example": examples[which]} if which in examples else {})


def tag(row: Row) -> str:
    """The name of the feature that a row belongs to."""
    return feature(row).rpartition(".")[2]


def feature(row: Row) -> str:
    """The module of the feature that a row belongs to: its file, or the folder of its files."""
    folder, _, file = row.handler.__module__.rpartition(".")
    return folder if file in FILES else row.handler.__module__


def tags(rows: Iterable[Row]) -> list[Schema]:
    """What each tag is, in the words of the features that it stands for."""
    said: dict[str, dict[str, None]] = {}
    for row in rows:
        module = sys.modules[feature(row)]
        said.setdefault(tag(row), {})[plain(module.__doc__ or "")] = None
    return [{"name": one, "description": NEXT.join(said[one])} for one in sorted(said)]


def plain(text: str) -> str:
    """A docstring for readers of the document: Markdown, without pointers into the source."""
    lines = (one.partition("Spec: ")[0].rstrip() for one in cleandoc(text).splitlines())
    return "\n".join(lines).replace("``", "`").strip()


def successes(row: Row, schemas: dict[str, Schema], examples: Mapping[str, Any]) -> Schema:
    """The responses of a row that are no errors; none where every request is refused."""
    reply = row.reply
    kinds = get_args(reply) if get_origin(reply) in (Union, UnionType) else (reply,)
    if NoContent in kinds:
        found: Schema = {"204": {"description": "Done; there is nothing to show."}}
        kinds = tuple(one for one in kinds if one is not NoContent)
        reply = Union[kinds] if kinds else NoReturn  # noqa: UP007 - of a tuple
    else:
        found = {}
    if reply is NoReturn:
        return found
    if reply is Redirect:
        shown = {"Location": {"schema": {"type": "string"}}}
        return {"302": {"description": "Go there.", "headers": shown}}
    if reply is None:
        return found | {"200": _NO_BODY}
    if isinstance(reply, Media):
        content: Schema = {one: {"schema": {"type": "string"}} for one in reply.kinds}
    else:
        kind = _MEDIA.get(reply, "application/json")
        content = {kind: _content(schema(reply, schemas), examples, "answered")}
    return found | {"200": {"description": "Success.", "content": content}}


def refusals(row: Row, schemas: dict[str, Schema], failure: Schema | None = None) -> Schema:
    """The error responses of a row; a status that is not named here is a defect.

    ``failure``: a 500 that is no defect.
    """
    wording = wording_of(row.refuse)
    worded = wording.shape is not None
    or_bare = f"{wording.name}OrBare" if worded else wording.name
    found = {"4XX": _response(wording.name), "503": _response(or_bare)}  # bare: full of uploads
    found |= {str(status): _response(or_bare) for status in wording.bare_too}
    found["413"] = _response(_TOO_LARGE)
    if worded and has_page(row):
        found["400"] = _response(f"{wording.name}OrPage")
    for status, shape in row.refusals.items():
        found[str(status)] = _response(BARE.name) if shape is None else _refusal(shape, schemas)
    return found if failure is None else found | {"500": failure}


def shared_responses() -> dict[str, Schema]:
    """The refusals that rows of every feature may have."""
    return {
        BARE.name: {
            "description": "Nothing but the status; where a request body is not JSON, or the path"
            " is not UTF-8, 400 with a page of HTML."
        },
        _TOO_LARGE: {"description": "The body is too large: a page of HTML.", "content": PAGE},
    }


def refusal_responses(row: Row, schemas: dict[str, Schema]) -> dict[str, Schema]:
    """The refusals that a row refers to, by name."""
    wording = wording_of(row.refuse)
    if wording.shape is None:
        return {}
    usual = _refusal(wording.shape, schemas)
    said = (
        f"As `{wording.name}`, or nothing but the status. A generated client cannot parse a body"
        " that may be empty and gives none here: what came is in its raw response."
    )
    found = {wording.name: usual, f"{wording.name}OrBare": {"description": said}}
    if has_page(row):
        said = f"As `{wording.name}`, or a page of HTML where the request cannot be read."
        found[f"{wording.name}OrPage"] = {"description": said, "content": usual["content"] | PAGE}
    return found


def has_page(row: Row) -> bool:
    """Whether it may answer 400 with a page: to a body that is no JSON, even where it wants none,
    and to a path that is not UTF-8.
    """
    return row.bad_json is None or bool(row.parameters)


def _refusal(shape: Any, schemas: dict[str, Schema]) -> Schema:
    content = {"application/json": {"schema": schema(shape, schemas)}}
    return {"description": plain(shape.__doc__ or ""), "content": content}


def _response(name: str) -> Schema:
    return {"$ref": f"#/components/responses/{name}"}


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
        return _one_of([one.value for one in kind])
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
        return {"anyOf": [_NULL if one is NoneType else schema(one, schemas) for one in inner]}
    if origin is Literal:
        return _one_of(list(inner))
    if origin in (list, tuple):
        return {"type": "array", "items": schema(inner[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(inner[1], schemas)}
    return {}


def _one_of(values: list[Any]) -> Schema:
    """With their type, without which generators make them anything."""
    texts = all(isinstance(one, str) for one in values)
    return {**({"type": "string"} if texts else {}), "enum": values}


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
    found: Schema = {
        "type": "object",
        "description": plain(kind.__doc__ or ""),
        "properties": {name: schema(one, schemas) for name, one in hints.items()},
        "required": required,
    }
    further = getattr(kind, FURTHER, "")
    return found | ({"additionalProperties": {"description": further}} if further else {})
