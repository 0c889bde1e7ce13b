"""The OpenAPI 3.1 document of a service as a dict, generated from the service's routes."""

import re
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
from svcserver.web.refusals import BARE, wording_of
from svcserver.web.routes import Media, Needed, NoContent, Page, Redirect, WebRow

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
_NULL: Schema = {"type": "null"}  # as one of several types
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
    """The credentials that a service's callers use, as the OpenAPI document describes them."""

    schemes: Mapping[str, Schema] = field(factory=dict)  # by name, as OpenAPI wants them
    # access label -> the accepted combinations of ``schemes``; (): no credential is needed
    taken: Mapping[str, Sequence[tuple[str, ...]]] = field(factory=dict)
    failures: Mapping[str, Schema] = field(factory=dict)  # 500s that are no defect, by access label


def document(
    rows: Iterable[WebRow],
    title: str,
    version: str,
    credentials: Credentials | None = None,
    examples: Mapping[str, Mapping[str, Any]] | None = None,
    about: str = "",
) -> Schema:
    """Return the whole document; routes with the same path share one path entry.

    ``examples`` maps a route's name to example bodies: ``sent`` for the request and ``answered``
    for the answer. ``about`` tells readers what the service is and how to use it.
    """
    credentials = credentials or Credentials()
    schemas: dict[str, Schema] = {}
    paths: dict[str, Schema] = {}
    responses = shared_responses()
    rows = sorted(rows, key=lambda row: (row.path, row.method))
    check_names(rows)
    path_of = templates(rows)
    for row in rows:
        shown = (examples or {}).get(row.name, {})
        entry = operation(row, schemas, credentials, shown)
        for name, response in refusal_responses(row, schemas).items():
            if responses.setdefault(name, response) != response:
                raise ValueError(f"two different error texts have the name {name}")
        _rename(entry["parameters"], path_of[row.name])
        paths.setdefault(path_of[row.name], {})[row.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": about},
        "servers": [{"url": "/", "description": "The server that this document describes."}],
        "tags": tags(rows),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": responses,
            "securitySchemes": dict(credentials.schemes),
        },
    }


def operation_name(row: WebRow) -> str:
    """Return the name of a route in a generated client: ``parties_promote``.

    The name depends only on the route's feature and handler, not on other mounted routes.
    """
    return f"{tag(row)}_{row.handler.__name__}"


def check_names(rows: Iterable[WebRow]) -> None:
    """Raise ValueError if two routes have the same operation name."""
    taken: dict[str, str] = {}
    for row in rows:
        name = operation_name(row)
        if taken.setdefault(name, row.name) != row.name:
            raise ValueError(f"{row.name} and {taken[name]} have the same operation name {name}")


def operation(
    row: WebRow,
    schemas: dict[str, Schema],
    credentials: Credentials,
    examples: Mapping[str, Any] | None = None,
) -> Schema:
    """Return the operation object of a route; add the route's named shapes to ``schemas``."""
    examples = examples or {}
    first, _, rest = plain(row.handler.__doc__ or "").partition(NEXT)
    result: Schema = {
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
        result["requestBody"] = {"content": kinds, **needed}
    return result


def parameters(row: WebRow, schemas: dict[str, Schema]) -> list[Schema]:
    """Return the parameters of a route's path, query and headers."""
    path = {name: Needed(row.path_types.get(name, str)) for name in row.parameters}
    return [
        _parameter(name, place, kind, schemas)
        for place, kinds in (("path", path), ("query", row.query), ("header", row.headers))
        for name, kind in kinds.items()
    ]


def _parameter(name: str, place: str, kind: Any, schemas: dict[str, Schema]) -> Schema:
    needed = isinstance(kind, Needed)
    shape = schema(kind.kind if needed else kind, schemas)
    parameter: Schema = {"name": name, "in": place, "schema": shape}
    return parameter | {"required": True} if needed else parameter


def _needed(shape: Schema, schemas: Mapping[str, Schema]) -> bool:
    """Return whether a request needs a body; it needs none if the shape accepts ``{}``."""
    if "$ref" in shape:
        shape = schemas[shape["$ref"].rpartition("/")[2]]
    if "anyOf" in shape:
        return all(_needed(option, schemas) for option in shape["anyOf"])
    return bool(shape.get("required")) or shape.get("type") == "array"


def _content(shape: Schema, examples: Mapping[str, Any], which: str) -> Schema:
    return {"schema": shape} | ({"example": examples[which]} if which in examples else {})


def tag(row: WebRow) -> str:
    """Return the name of the feature that a route belongs to."""
    return feature(row).rpartition(".")[2]


def feature(row: WebRow) -> str:
    """Return the name of the module, or of the package, that contains a route's feature."""
    folder, _, file = row.handler.__module__.rpartition(".")
    return folder if file in FILES else row.handler.__module__


def tags(rows: Iterable[WebRow]) -> list[Schema]:
    """Return each tag with a description, made from the features' docstrings."""
    descriptions: dict[str, dict[str, None]] = {}
    for row in rows:
        module = sys.modules[feature(row)]
        descriptions.setdefault(tag(row), {})[plain(module.__doc__ or "")] = None
    return [
        {"name": name, "description": NEXT.join(descriptions[name])}
        for name in sorted(descriptions)
    ]


def plain(text: str) -> str:
    """Return a docstring as Markdown, without "Spec" pointers."""
    lines = (line.partition("Spec: ")[0].rstrip() for line in cleandoc(text).splitlines())
    return "\n".join(lines).replace("``", "`").strip()


def successes(row: WebRow, schemas: dict[str, Schema], examples: Mapping[str, Any]) -> Schema:
    """Return a route's success responses, or none if the route refuses every request."""
    reply = row.reply
    kinds = get_args(reply) if get_origin(reply) in (Union, UnionType) else (reply,)
    if NoContent in kinds:
        responses: Schema = {"204": {"description": "Success; the answer has no body."}}
        kinds = tuple(kind for kind in kinds if kind is not NoContent)
        reply = Union[kinds] if kinds else NoReturn  # noqa: UP007 - of a tuple
    else:
        responses = {}
    if reply is NoReturn:
        return responses
    if reply is Redirect:
        shown = {"Location": {"schema": {"type": "string"}}}
        return {"302": {"description": "A redirect.", "headers": shown}}
    if reply is None:
        return responses | {"200": _NO_BODY}
    if isinstance(reply, Media):
        content: Schema = {kind: {"schema": {"type": "string"}} for kind in reply.kinds}
    else:
        kind = _MEDIA.get(reply, "application/json")
        content = {kind: _content(schema(reply, schemas), examples, "answered")}
    return responses | {"200": {"description": "Success.", "content": content}}


def refusals(row: WebRow, schemas: dict[str, Schema], failure: Schema | None = None) -> Schema:
    """Return all error responses that a route can have, except those caused by a defect.

    ``failure`` describes a 500 that is expected.
    """
    wording = wording_of(row.refuse)
    worded = wording.shape is not None
    or_bare = f"{wording.name}OrBare" if worded else wording.name
    responses = {"4XX": _response(wording.name), "503": _response(or_bare)}  # bare: upload limit
    responses |= {str(status): _response(or_bare) for status in wording.bare_too}
    responses["413"] = _response(_TOO_LARGE)
    if worded and has_page(row):
        responses["400"] = _response(f"{wording.name}OrPage")
    for status, shape in row.refusals.items():
        responses[str(status)] = _response(BARE.name) if shape is None else _refusal(shape, schemas)
    return responses if failure is None else responses | {"500": failure}


def shared_responses() -> dict[str, Schema]:
    """Return the error responses, by name, that routes of every feature can have."""
    return {
        BARE.name: {
            "description": "An empty body, or an HTML page (400) if the request body is not JSON or"
            " the path is not UTF-8."
        },
        _TOO_LARGE: {
            "description": "The body is too large; the answer is an HTML page.",
            "content": PAGE,
        },
    }


def refusal_responses(row: WebRow, schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Return the error responses, by name, that a route's ``refuse`` function can produce."""
    wording = wording_of(row.refuse)
    if wording.shape is None:
        return {}
    usual = _refusal(wording.shape, schemas)
    description = (
        f"`{wording.name}`, or an empty body. A generated client cannot parse a body that may be"
        " empty, so it returns no object here; read the body from its raw response."
    )
    responses = {wording.name: usual, f"{wording.name}OrBare": {"description": description}}
    if has_page(row):
        description = f"`{wording.name}`, or an HTML page if the request cannot be parsed."
        responses[f"{wording.name}OrPage"] = {
            "description": description,
            "content": usual["content"] | PAGE,
        }
    return responses


def has_page(row: WebRow) -> bool:
    """Return whether a malformed request to this route can be answered with an HTML page."""
    return row.bad_json is None or bool(row.parameters)


def _refusal(shape: Any, schemas: dict[str, Schema]) -> Schema:
    content = {"application/json": {"schema": schema(shape, schemas)}}
    return {"description": plain(shape.__doc__ or ""), "content": content}


def _response(name: str) -> Schema:
    return {"$ref": f"#/components/responses/{name}"}


def schema(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """Return a type's JSON schema; an unknown type gets the empty schema, which allows anything."""
    if is_typeddict(kind) or (isinstance(kind, type) and has(kind)):
        if kind.__name__ not in schemas:
            schemas[kind.__name__] = {}  # set first, so that a shape may contain itself
            schemas[kind.__name__] = _object(kind, schemas)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(origin):
        name = shape_name(kind)
        if name not in schemas:
            arguments = dict(zip(origin.__parameters__, inner, strict=True))
            schemas[name] = _object(origin, schemas, arguments)
        return {"$ref": f"#/components/schemas/{name}"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of([member.value for member in kind])
    return _made_of(origin, inner, schemas)


def shape_name(kind: Any) -> str:
    """Return a type's name: ``TrackListEnvelope`` for ``Envelope[list[Track]]``."""
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
        return {
            "anyOf": [_NULL if option is NoneType else schema(option, schemas) for option in inner]
        }
    if origin is Literal:
        return _one_of(list(inner))
    if origin in (list, tuple):
        return {"type": "array", "items": schema(inner[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(inner[1], schemas)}
    return {}


def _one_of(values: list[Any]) -> Schema:
    """Return an enum schema with its type: without the type, generators fall back to ``Any``."""
    texts = all(isinstance(value, str) for value in values)
    return {**({"type": "string"} if texts else {}), "enum": values}


def _marked(plain: Any, marks: tuple[Any, ...], schemas: dict[str, Schema]) -> Schema:
    result = schema(plain, schemas)
    for mark in marks:
        if isinstance(mark, Mark):
            result = mark.schema(result)
    return result


def _object(
    kind: Any, schemas: dict[str, Schema], arguments: Mapping[Any, Any] | None = None
) -> Schema:
    """Return the schema of a class; ``arguments`` maps its type variables to types."""
    if has(kind):
        shown = members(kind)
        hints = {key: kind_of_member.type for key, kind_of_member in shown.items()}
        required = [
            key for key, kind_of_member in shown.items() if kind_of_member.default is NOTHING
        ]
    else:  # a TypedDict, whose own keys ignore NotRequired in annotations that are strings
        marked = get_type_hints(kind, include_extras=True)
        hints = {
            name: (arguments or {}).get(kind_of_member, kind_of_member)
            for name, kind_of_member in marked.items()
        }
        required = [
            name
            for name in sorted(kind.__required_keys__)
            if get_origin(marked[name]) is not NotRequired
        ]
    result: Schema = {
        "type": "object",
        "description": plain(kind.__doc__ or ""),
        "properties": {
            name: schema(kind_of_member, schemas) for name, kind_of_member in hints.items()
        },
        "required": required,
    }
    further = getattr(kind, FURTHER, "")
    return result | ({"additionalProperties": {"description": further}} if further else {})


def template(path: str) -> str:
    """Return ``/note/{id}`` for a route's ``/note/<id>``."""
    return re.sub(r"<(\w+)>", r"{\1}", path)


def templates(rows: Iterable[WebRow]) -> dict[str, str]:
    """Map each route's name to its OpenAPI path.

    OpenAPI treats paths that differ only in parameter names as one path. Such paths therefore share
    one name for each parameter: ``/note/{note_id_or_user_id}``.
    """
    rows = list(rows)
    alike: dict[str, list[list[str]]] = {}
    for row in rows:
        alike.setdefault(_nameless(row.path), []).append(row.parameters)
    joined = {
        path: path.format(
            *(f"{{{'_or_'.join(sorted(set(names)))}}}" for names in zip(*named, strict=True))
        )
        for path, named in alike.items()
    }
    return {row.name: joined[_nameless(row.path)] for row in rows}


def _rename(parameters: list[Schema], path: str) -> None:
    """Give the path parameters the names in ``path``.

    If a parameter gets a new name, its description shows the old name.
    """
    for parameter, name in zip(parameters, re.findall(r"{(\w+)}", path), strict=False):
        if parameter["name"] != name:
            parameter |= {
                "name": name,
                "description": f"Here the {parameter['name'].replace('_', ' ')}.",
            }


def _nameless(path: str) -> str:
    """Return a path without the names of its parameters: ``/note/{}``."""
    return re.sub(r"<\w+>", "{}", path)
