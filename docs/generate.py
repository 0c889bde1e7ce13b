"""The pages of docs/reference, generated from the code whenever the documentation is built."""

import ast
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

import orjson
import protocol
import routes
from twisted.internet.task import Clock

from bench.charts import STYLE, sections
from bench.kept import KeptRun, latest
from svcserver.board.memory import MemoryBoard
from svcserver.ctl.keys import new_signing_keys
from svcserver.kernel.counters import MEANINGS, Counted
from svcserver.kernel.settings import load
from svcserver.metagame.accounts.actions import ACTIONS
from svcserver.metagame.accounts.audit import MAX_SHOWN
from svcserver.metagame.composition import Metagame
from svcserver.metagame.owner.build import Build
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE, describe
from svcserver.metagame.settings import MetagameSettings

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
BUILT = ROOT / "docs" / "_build" / "reference" / "openapi.json"
EVERYTHING = {"PORT": "61000", "AUTH_MODE": "APIKEY", "REGISTRATION_MODE": "OPEN", **EVERY_ROUTE}
Json = dict[str, Any]


def write() -> None:
    """Write every page."""
    shutil.rmtree(FOLDER, ignore_errors=True)  # it may have pages of removed routes
    (FOLDER / "http").mkdir(parents=True)
    document = api()
    pages = {
        **routes.pages(document),
        "chat.md": protocol.page(),
        "metrics.md": metrics(ROOT / "svcserver"),
        "audit.md": audit(),
        "benchmarks.md": benchmarks(*latest()),
    }
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    BUILT.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))


def api() -> Json:
    """Return the OpenAPI document of a metagame in which every feature is enabled."""
    nothing: Any = None  # its rows are only listed, never called
    keys = new_signing_keys()
    signing = {"AUTH_SIGNING_PRIVKEY_B64": keys.private, "AUTH_SIGNING_PUBKEY_B64": keys.public}
    settings = load(MetagameSettings, EVERYTHING | signing)[0]
    game = Metagame(settings, nothing, MemoryBoard(time.time), Clock(), time.time, nothing, nothing)
    return describe(game.front_door().rows, Build.from_settings(settings).version)


def metrics(code: Path) -> str:
    """Return the page of metrics: the metrics of all services, and the metrics of each service."""
    results: dict[str, tuple[str, str]] = {}
    for file in sorted(code.rglob("*.py")):
        for name, says in _figures(ast.parse(file.read_text(encoding="utf-8")), file):
            results[name] = (says, file.relative_to(code).parts[0])
    services = sorted({service for _, service in results.values()})
    every = [f"| `svc_SERVICE_{kind}_total` | `reason` | {MEANINGS[kind]} |" for kind in Counted]
    rows = [
        f"| `{name}` | {service} | {says} |" for name, (says, service) in sorted(results.items())
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "Look up here what each metric of `METRICS_PORT` counts. Written from the code.",
            "",
            "## In every service",
            "",
            f"`SERVICE` is {', '.join(f'`{entry}`' for entry in services)}. Each also has",
            "Prometheus's metrics of its process, such as `process_cpu_seconds_total`,",
            "`process_resident_memory_bytes` and `process_open_fds`.",
            "",
            "| metric | labels | what it counts |",
            "|---|---|---|",
            *every,
            "| `svc_SERVICE_request_seconds` | `route`, `status` | How long requests took. |",
            "",
            "## In one service",
            "",
            "| metric | service | what it counts |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def benchmarks(run: KeptRun | None = None, previous: KeptRun | None = None) -> str:
    """Return the page of the newest kept run of the benches."""
    blocks = [
        "# Benchmarks",
        "See here what the last kept run of `make bench-report` measured, and compare it with the"
        " run before. [Performance](../performance.md) explains the method.",
        raw_html(f"<style>{STYLE}</style>"),
    ]
    for title, body in sections(run, previous) if run is not None else ():
        blocks += [f"## {title}", raw_html(body)]
    return "\n\n".join(blocks) + "\n"


def raw_html(text: str) -> str:
    """Return a block that Sphinx copies into the page."""
    return f"```{{raw}} html\n{text}\n```"


def audit() -> str:
    """Return the page of audit events: the members of a row, and what each action records."""
    rows = [
        f"| `{name}` | {item.says} | {item.target or 'nothing'} | {item.before} | {item.after} |"
        for name, item in sorted(ACTIONS.items())
    ]
    return "\n".join(
        [
            "# Audit events",
            "",
            *wrap(
                "Look up here what `svcctl audit --json` prints and the dashboard shows."
                " The page is written from the code. Each row is an object:",
                100,
            ),
            "",
            "| member | meaning |",
            "|---|---|",
            "| `id`, `at` | number and time (UTC) |",
            "| `actor` | an account, or `svcctl:` and the user of the machine |",
            "| `action` | as in the table below; for an attempt that was refused before its action"
            " began, method and path of its route |",
            "| `target`, `targetKind` | the account or thing, and its kind |",
            "| `reason` | the reason that the actor gave |",
            f"| `before`, `after` | objects, or null; cut beyond {MAX_SHOWN} characters |",
            "| `refused` | why nothing was done; null if it was done |",
            "",
            *wrap(
                "An action outside the database (on a game server, in a player's name) has two"
                " rows. The first has `begun` in its `after`; the second has the result. If the"
                " second is missing, the metagame ended meanwhile, and the action may have been"
                " done. If the result is unknown, `outcome` in its `after` says why:",
                100,
            ),
            "",
            "* `no answer`: no answer came; the action may have been done.",
            "* `failed`: a fault of the server ended the action; part of it may have been done.",
            "* `called off`: `svcctl` was stopped; part of the action may have been done.",
            "",
            "## Actions",
            "",
            "| action | what was done | target | before | after |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _figures(tree: ast.AST, file: Path) -> Iterator[tuple[str, str]]:
    """Yield the Prometheus name and the meaning of each entry of a table of metrics."""
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
                    counts = any(keyword.arg == "counts" for keyword in call.keywords)
                    ends = "" if not counts or name.endswith("_total") else "_total"
                    yield name + ends, str(ast.literal_eval(first))
                    listed += 1
    if made != listed:
        raise SystemExit(f"{file} makes {made} figures, of which its tables name {listed}")


def _is_figure(call: ast.Call) -> bool:
    """Return whether the call creates a metric; the ``Figure`` of ``ctl/play`` is no metric."""
    return isinstance(call.func, ast.Name) and call.func.id == "Figure" and len(call.args) < 4


if __name__ == "__main__":
    write()
