"""The pages of docs/reference, written from the code whenever the documentation is built."""

from __future__ import annotations

import ast
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

import orjson
import protocol
import variables
from twisted.internet.task import Clock

from svcserver.board.memory import MemoryBoard
from svcserver.ctl.keys import new_signing_keys
from svcserver.kernel.counters import MEANINGS, Counted
from svcserver.kernel.settings import load
from svcserver.metagame.accounts.actions import ACTIONS
from svcserver.metagame.accounts.audit import MAX_SHOWN
from svcserver.metagame.composition import Metagame
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE, describe
from svcserver.metagame.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
EVERYTHING = {"PORT": "61000", "AUTH_MODE": "APIKEY", "REGISTRATION_MODE": "OPEN", **EVERY_ROUTE}
Json = dict[str, Any]


def write() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    pages = {
        "http.md": http(api()),
        "chat.md": protocol.page(),
        "metrics.md": metrics(ROOT / "svcserver"),
        "audit.md": audit(),
        "settings.md": variables.page(),
    }
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def api() -> Json:
    """The OpenAPI document of a metagame with everything switched on."""
    nothing: Any = None  # its rows are only listed, never called
    keys = new_signing_keys()
    signing = {"AUTH_SIGNING_PRIVKEY_B64": keys.private, "AUTH_SIGNING_PUBKEY_B64": keys.public}
    settings = load(Settings, EVERYTHING | signing)[0]
    game = Metagame(settings, nothing, MemoryBoard(time.time), Clock(), time.time, nothing, nothing)
    return describe(game.front_door().rows, "")


def http(document: Json) -> str:
    """The routes by tag, the refusals, and the shapes they use."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups[tag].append(_operation(method, path, operation))
    lines = [
        "# HTTP routes",
        "",
        "Written from the code: `svcctl openapi` prints the same as an OpenAPI document, of the",
        "routes that a host's settings switch on. Here all are on.",
        "",
        document["info"]["description"],
        "Credentials:",
        "",
        *_credentials(document["components"]["securitySchemes"]),
    ]
    for tag in document["tags"]:
        lines += ["", f"## {tag['name']}", "", tag["description"], "", *groups[tag["name"]]]
    lines += ["", "## Refusals", "", *_refusals(document), "", "## Shapes", ""]
    for name, shape in sorted(document["components"]["schemas"].items()):
        lines += [*_shape(name, shape)]
    return "\n".join(lines) + "\n"


def _credentials(schemes: Json) -> Iterator[str]:
    """How each is sent, and what it is."""
    for name, one in schemes.items():
        place = f"{one['in']} `{one['name']}`" if "in" in one else "header `Authorization: Bearer`"
        yield f"- `{name}` ({place}): {one['description']}"


def _operation(method: str, path: str, operation: Json) -> str:
    body: Json = next(iter(operation.get("requestBody", {}).get("content", {}).values()), {})
    sent = _links(body["schema"]) if body else ""
    success: Json = operation["responses"].get("200", {})
    reply: Json = next(iter(success.get("content", {}).values()), {})
    *more, access = operation["description"].split("\n\n")
    lines = [f"### {method.upper()} {path}", "", operation["summary"], ""]
    lines += [line for one in more for line in (one, "")]
    lines.append(f"`{operation['operationId']}`. {access}")
    lines += [f"{title}: {said}." for title, said in _taken(operation["parameters"])]
    if sent:
        lines.append(f"Body: {sent}.")
    lines.append(f"Answer: {_answers(operation['responses'])}.")
    lines.append(f"Refused: {_refused(operation['responses'])}.")
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
    """What an operation takes beside its body, in words: nothing of texts in its path."""
    for place in ("path", "query", "header"):
        found = [one for one in parameters if one["in"] == place]
        if place == "path":
            found = [one for one in found if one["schema"] != {"type": "string"}]
        said = [
            f"`{one['name']}` ({_links(one['schema'])}"
            f"{', needed' if 'required' in one and place != 'path' else ''})"
            for one in found
        ]
        if said:
            yield place.capitalize(), ", ".join(said)


def _answers(responses: Json) -> str:
    """The successes of an operation, in words."""
    found = []
    if "200" in responses:
        content: Json = responses["200"].get("content", {"": {}})
        kinds = [
            _links(one["schema"])
            if kind == "application/json"
            else f"`{kind}`"
            if kind
            else "nothing"
            for kind, one in content.items()
        ]
        found.append(" or ".join(kinds))
    found += [f"{status} without a body" for status in ("204", "302") if status in responses]
    return ", or ".join(found) or "none, for it always refuses"


def _refused(responses: Json) -> str:
    """The refusals of an operation, as links; those that differ with their status."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for status, one in responses.items():
        if status.startswith("4"):
            by_name[_refusal_link(one)].append(status)
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
    for name, one in sorted(document["components"]["responses"].items()):
        yield from (f"(refusal-{name.lower()})=", f"### {name}", "", one["description"], "")
        content: Json = one.get("content", {})
        if "application/json" in content:
            body = _links(content["application/json"]["schema"])
            yield from (f"Body: {body}.", "")


def _indented(content: Json) -> str:
    return orjson.dumps(content["example"], option=orjson.OPT_INDENT_2).decode()


def _links(schema: Json) -> str:
    """What a schema is, in words, named shapes as links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#shape-{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_links(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array" and "items" in schema:
        return f"list of {_links(schema['items']) or 'anything'}"
    if schema.get("additionalProperties") not in (None, False, True):
        return f"object of {_links(schema['additionalProperties']) or 'anything'}"
    kind = schema.get("type", "anything")
    if "type" not in schema and "description" in schema:
        return f"anything ({schema['description'].rstrip('.')})"
    bounds = [f"{key} {value}" for key, value in schema.items() if key.startswith(("min", "max"))]
    said = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return f"{said} ({', '.join(bounds)})" if bounds else said


def _shape(name: str, shape: Json) -> Iterator[str]:
    yield from (f"(shape-{name.lower()})=", f"### {name}", "")
    if shape.get("description"):
        yield from (shape["description"], "")
    required = set(shape.get("required", ()))
    fields = shape.get("properties", {})
    if not fields:
        yield from (_links(shape), "")
        return
    yield from ("| field | is | |", "|---|---|---|")
    for field, kind in fields.items():
        yield f"| `{field}` | {_links(kind)} | {'' if field in required else 'may be left out'} |"
    further = shape.get("additionalProperties")
    if further:
        yield from ("", f"It may have more: {further['description']}")
    yield ""


def metrics(code: Path) -> str:
    """Every figure that a ``METRICS_PORT`` shows: those of all services, and each one's own."""
    found: dict[str, tuple[str, str]] = {}
    for file in sorted(code.rglob("*.py")):
        for name, says in _figures(ast.parse(file.read_text(encoding="utf-8")), file):
            found[name] = (says, file.relative_to(code).parts[0])
    services = sorted({service for _, service in found.values()})
    every = [f"| `svc_SERVICE_{kind}_total` | `reason` | {MEANINGS[kind]} |" for kind in Counted]
    rows = [f"| `{name}` | {service} | {says} |" for name, (says, service) in sorted(found.items())]
    return "\n".join(
        [
            "# Figures",
            "",
            "Written from the code: what `METRICS_PORT` shows of each service, for Prometheus.",
            "",
            "## Of every service",
            "",
            f"`SERVICE` is {', '.join(f'`{one}`' for one in services)}. Beside these stand the",
            "process's own, as Prometheus's library names them: `process_cpu_seconds_total`,",
            "`process_resident_memory_bytes`, `process_open_fds` and so on.",
            "",
            "| figure | by | what it counts |",
            "|---|---|---|",
            *every,
            "| `svc_SERVICE_request_seconds` | `route`, `status` | How long requests took. |",
            "",
            "## Of one service",
            "",
            "| figure | of | what it counts |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def audit() -> str:
    """Every event of the audit log: the columns of a row, and what each act leaves there."""
    rows = [
        f"| `{name}` | {one.says} | {one.target or 'nothing'} | {one.before} | {one.after} |"
        for name, one in sorted(ACTIONS.items())
    ]
    return "\n".join(
        [
            "# Audit events",
            "",
            *wrap(
                "Written from the code: what `svcctl audit --json` prints and the dashboard's page"
                " shows. Each row is an object with `id`, `at` (UTC), `actor` (an account, or"
                " `svcctl:` and the user of the machine), `action`, `target`,"
                " `targetKind` (what the target is, as in the table), `reason`, `before`"
                " and `after` (objects, null where there is nothing to say, cut beyond"
                f" {MAX_SHOWN} characters) and `refused` (why nothing was done, null where it was)."
                " A try that was refused before its act began"
                " stands there as method and path of its route."
                " An act that is no transaction of the database (on a game server, in a player's"
                " name) has two rows: before it one whose `after` says `begun`, then one of what"
                " came of it; where nobody said that, the `after` of the second says `outcome`:"
                " no answer, it may have been done. A first row without a second: the metagame"
                " ended meanwhile, and it may have been done. The `outcome` says `failed` where the"
                " act ended by a fault of ours, and `called off` where `svcctl` was stopped in the"
                " middle: part of it may have been done.",
                100,
            ),
            "",
            "| action | what was done | target | before | after |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _figures(tree: ast.AST, file: Path) -> Iterator[tuple[str, str]]:
    """Name, as Prometheus sees it, and meaning of each entry of a table of figures."""
    made, listed = 0, 0
    for node in ast.walk(tree):
        made += isinstance(node, ast.Call) and _is_figure(node)
        if not isinstance(node, ast.Dict):
            continue
        for pair in zip(node.keys, node.values, strict=True):
            match pair:
                case (ast.Constant(value=str(name)), ast.Call(args=[first, *_]) as call) if (
                    _is_figure(call)
                ):
                    counts = any(one.arg == "counts" for one in call.keywords)
                    ends = "" if not counts or name.endswith("_total") else "_total"
                    yield name + ends, str(ast.literal_eval(first))
                    listed += 1
    if made != listed:
        raise SystemExit(f"{file} makes {made} figures, of which its tables name {listed}")


def _is_figure(call: ast.Call) -> bool:
    """Whether it makes a figure of METRICS_PORT; ``ctl/play`` calls something else so, too."""
    return isinstance(call.func, ast.Name) and call.func.id == "Figure" and len(call.args) < 4


if __name__ == "__main__":
    write()
