"""The pages about the game's routes, from the OpenAPI document: one for each group of routes."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orjson

Json = dict[str, Any]


def pages(document: Json) -> dict[str, str]:
    """Return the text of each file: the first page, a page for each tag, and the schemas' page."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups[tag].append(_operation(method, path, operation))
    result = {"http.md": _first(document), "http/shapes.md": _shapes(document)}
    for tag in document["tags"]:
        lines = [f"# {tag['name'].capitalize()}", "", tag["description"], "", *groups[tag["name"]]]
        result[f"http/{tag['name']}.md"] = "\n".join(lines)
    return result


def _first(document: Json) -> str:
    """Return the page that introduces the API and lists the groups of routes."""
    replies = {entry["name"]: _line(entry) for entry in document["tags"]}
    groups = [f"| [{tag}](http/{tag}.md) | {line} |" for tag, line in replies.items()]
    lines = [
        "# HTTP routes",
        "",
        "Look up here how to call each route. Written from the code; client generators take",
        'the same as <a href="openapi.json">openapi.json</a>. All routes are listed, and',
        "`svcctl openapi` prints those that a host's settings turn on. Begin with",
        "[a first call](../contributors/first-call.md).",
        "",
        document["info"]["description"],
        "**Credentials:**",
        "",
        *_credentials(document["components"]["securitySchemes"]),
        "",
        "## Groups",
        "",
        "| group | contains |",
        "|---|---|",
        *groups,
        "",
        "[Shapes](http/shapes.md) lists the members of bodies and answers.",
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(f"http/{tag}" for tag in replies),
        "http/shapes",
        "```",
        "",
        "## Refusals",
        "",
        *_refusals(document),
    ]
    return "\n".join(lines) + "\n"


def _line(tag: Json) -> str:
    """Return the first paragraph of a tag's description, for a table cell."""
    first: str = tag["description"].split("\n\n")[0]
    return " ".join(first.split())


def _shapes(document: Json) -> str:
    lines = ["# Shapes", "", "The members of bodies and answers.", ""]
    for name, shape in sorted(document["components"]["schemas"].items()):
        lines += _shape(name, shape)
    return "\n".join(lines) + "\n"


def _credentials(schemes: Json) -> Iterator[str]:
    """Yield a line for each kind of credential: how it is sent, and what it is."""
    for name, item in schemes.items():
        place = (
            f"{item['in']} `{item['name']}`" if "in" in item else "header `Authorization: Bearer`"
        )
        yield f"- `{name}` ({place}): {item['description']}"


def _operation(method: str, path: str, operation: Json) -> str:
    body: Json = next(iter(operation.get("requestBody", {}).get("content", {}).values()), {})
    sent = _links(body["schema"]) if body else ""
    success: Json = operation["responses"].get("200", {})
    reply: Json = next(iter(success.get("content", {}).values()), {})
    *more, access = operation["description"].split("\n\n")
    lines = [f"## {method.upper()} {path}", "", operation["summary"], ""]
    lines += [line for first in more for line in (first, "")]
    lines.append(f"- {access}")
    lines += [f"- {title}: {replies}." for title, replies in _taken(operation["parameters"])]
    if sent:
        lines.append(f"- Body: {sent}.")
    lines.append(f"- Answer: {_answers(operation['responses'])}.")
    lines.append(f"- Refused: {_refused(operation['responses'])}.")
    lines.append(f"- Name in generated clients: `{operation['operationId']}`.")
    for title, content in (("sent", body), ("answered", reply)):
        if "example" in content:
            lines += [
                "",
                f"```{{code-block}} json\n:caption: {title}",
                "",
                _indented(content),
                "```",
            ]
    return "\n".join([*lines, ""])


def _taken(parameters: list[Json]) -> Iterator[tuple[str, str]]:
    """Yield an operation's arguments, except its body and the plain strings in its path."""
    for place in ("path", "query", "header"):
        result = [parameter for parameter in parameters if parameter["in"] == place]
        if place == "path":
            result = [
                parameter
                for parameter in result
                if parameter["schema"] != {"type": "string"} or "description" in parameter
            ]
        replies = [
            f"`{parameter['name']}` ({_links(parameter['schema'])}"
            f"{', required' if 'required' in parameter and place != 'path' else ''})"
            f"{': ' + parameter['description'].rstrip('.') if 'description' in parameter else ''}"
            for parameter in result
        ]
        if replies:
            yield place.capitalize(), ", ".join(replies)


def _answers(responses: Json) -> str:
    """Describe the successful answers of an operation in words."""
    results = []
    if "200" in responses:
        content: Json = responses["200"].get("content", {"": {}})
        kinds = [
            _links(item["schema"])
            if kind == "application/json"
            else f"`{kind}`"
            if kind
            else "nothing"
            for kind, item in content.items()
        ]
        results.append(" or ".join(kinds))
    results += [f"{status} without a body" for status in ("204", "302") if status in responses]
    return ", or ".join(results) or "none; it always refuses"


def _refused(responses: Json) -> str:
    """Return an operation's error replies as links, with the status of unusual ones."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for status, item in responses.items():
        if status.startswith("4"):
            by_name[_refusal_link(item)].append(status)
    usual = _refusal_link(responses["4XX"])
    others = [
        f"{', '.join(sorted(which))}: {link}" for link, which in by_name.items() if link != usual
    ]
    return "; ".join([usual, *others])


def _refusal_link(response: Json) -> str:
    if "$ref" not in response:
        return _links(response["content"]["application/json"]["schema"])
    name = response["$ref"].rpartition("/")[2]
    return f"[{name}](#refusal-{name.lower()})"


def _refusals(document: Json) -> Iterator[str]:
    for name, item in sorted(document["components"]["responses"].items()):
        yield from (f"(refusal-{name.lower()})=", f"### {name}", "", item["description"], "")
        content: Json = item.get("content", {})
        if "application/json" in content:
            body = _links(content["application/json"]["schema"])
            yield from (f"Body: {body}.", "")


def _indented(content: Json) -> str:
    return orjson.dumps(content["example"], option=orjson.OPT_INDENT_2).decode()


def _links(schema: Json) -> str:
    """Describe a schema in words, with named schemas as links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#shape-{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_links(entry) for entry in schema["anyOf"])
    if "const" in schema:
        return f"always `{orjson.dumps(schema['const']).decode()}`"
    if "enum" in schema:
        return " or ".join(f"`{entry}`" for entry in schema["enum"])
    if schema.get("type") == "array" and "items" in schema:
        return f"list of {_links(schema['items']) or 'anything'}"
    if schema.get("additionalProperties") not in (None, False, True):
        return f"object of {_links(schema['additionalProperties']) or 'anything'}"
    kind = schema.get("type", "anything")
    if "type" not in schema and "description" in schema:
        return f"anything ({schema['description'].rstrip('.')})"
    bounds = [f"{key} {value}" for key, value in schema.items() if key.startswith(("min", "max"))]
    if schema.get("format") == "date-time":
        bounds.append("a time, as `2026-09-21T10:00:00.000Z`")
    if "pattern" in schema:
        bounds.append(f"`{schema['pattern']}`")
    reply = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return f"{reply} ({', '.join(bounds)})" if bounds else reply


def _shape(name: str, shape: Json) -> Iterator[str]:
    yield from (f"(shape-{name.lower()})=", f"## {name}", "")
    if shape.get("description"):
        yield from (shape["description"], "")
    required = set(shape.get("required", ()))
    fields = shape.get("properties", {})
    if not fields:
        yield from (_links(shape), "")
        return
    yield from ("| field | type |", "|---|---|")
    for field, kind in fields.items():
        yield f"| `{field}` | {_links(kind)}{'' if field in required else '; optional'} |"
    further = shape.get("additionalProperties")
    if further:
        yield from ("", f"Further members: {further['description']}")
    yield ""
