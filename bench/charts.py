"""HTML for a run's stored results: charts as inline SVG, each with a table of the same figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from attrs import frozen

from bench.kept import (
    HEADS,
    QUANTILES,
    KeptRun,
    Measurement,
    Part,
    Profile,
    earlier,
    in_words,
    verdict,
)

TITLES = {
    "requests": "Requests",
    "postgresql": "PostgreSQL",
    "edge": "Gateway, relay and content server",
    "chat": "Chat",
    "start": "Start and memory",
    "used": "A host with 100,000 accounts",
    "scale": "Several processes",
    "evening": "A session of 200 players",
    "functions": "CPU time by function",
}
WIDTH, ROW, BAR = 360, 34, 10  # of a chart of bars; pages scale it
SMALL, HIGH = 170, 130  # of a chart of latencies
STYLE = """
.bench { width: 100%; max-width: 36rem; height: auto; display: block; margin: 1rem 0; }
.bench.small { width: 10rem; display: inline-block; margin: 0 0.5rem 0.5rem 0; }
.bench text { fill: currentColor; font: 11px sans-serif; }
.bench .bar { fill: var(--color-brand-primary, #2a6fdb); }
.bench .missed { fill: #d03030; }
.bench .curve { fill: none; stroke: var(--color-brand-primary, #2a6fdb); stroke-width: 2; }
.bench .before { fill: none; stroke: currentColor; stroke-dasharray: 3 2; }
.bench .axis { stroke: currentColor; opacity: 0.35; }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Benchmarks of svcserver</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
body {{ font: 1rem/1.5 sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }}
table {{ border-collapse: collapse; font-size: 0.875rem; }}
th, td {{ border-bottom: 1px solid #8888; padding: 0.2rem 0.6rem; text-align: left; }}
@media (max-width: 46em) {{  /* on a phone, each row is a card */
  table, tbody, tr, td {{ display: block; }}
  thead {{ display: none; }}
  tr {{ border-bottom: 1px solid #8888; padding: 0.3rem 0; }}
  td {{ border: 0; overflow-wrap: anywhere; }}
  td:not(:first-child)::before {{ content: attr(data-column) ": "; opacity: 0.8; }}
}}
{style}</style></head><body><main><h1>Benchmarks of svcserver</h1>
{body}
</main></body></html>
"""


@frozen
class Bar:
    """A bar of a chart."""

    label: str
    value: float
    figure: str
    good: bool = True
    limit: float | None = None
    before: float | None = None


def page(run: KeptRun, previous: KeptRun | None) -> str:
    """Return a page that loads no other file."""
    parts = (f"<h2>{escape(title)}</h2>\n{body}" for title, body in sections(run, previous))
    return PAGE.format(style=STYLE, body="\n".join(parts))


def sections(run: KeptRun, previous: KeptRun | None) -> Iterator[tuple[str, str]]:
    """Yield the title of each section, and its HTML."""
    yield "This run", circumstances(run, previous)
    same_machine = previous is not None and previous.machine == run.machine
    for name, part in run.parts.items():
        old = [earlier(name, current, previous) for current in part.measurements]
        pairs = list(zip(part.measurements, old, strict=True))
        yield TITLES.get(name, name), "\n".join(_charts_and_tables(part, pairs, same_machine))


Pairs = Sequence[tuple[Measurement, Measurement | None]]


def _charts_and_tables(part: Part, pairs: Pairs, same_machine: bool) -> Iterator[str]:
    ratios = [
        Bar(
            f"{current.name}, beside {current.yardstick}",
            current.ratio,
            f"{current.ratio:.2f} x",
            current.good,
            _number(current.limit),
            old.ratio if old is not None else None,
        )
        for current, old in pairs
        if current.ratio
    ]
    if ratios:
        yield "<p>Bars begin at 1, the yardstick. Line: limit. Circle: previous run.</p>"
        yield bars("Ratios to the yardsticks", ratios, logarithmic=True)
    curves = {current.name: (current, old) for current, old in pairs if current.latency_ms}
    if curves:
        yield "<p>Latency by percentile, in milliseconds. Dashed: previous run.</p>"
        yield latencies(list(curves.values()))
    if pairs:
        rows = ((*current.cells, verdict(current, old, same_machine)) for current, old in pairs)
        yield table((*HEADS, "change"), rows)
    for profile in part.profiles:
        yield from _functions(profile)


def _functions(profile: Profile) -> Iterator[str]:
    title = f"{profile.name}: {in_words(profile.cpu_us)} us a request"
    us = {name: share * profile.cpu_us for name, share in profile.functions.items()}
    yield f"<h3>{escape(title)}</h3>"
    yield bars(title, [Bar(name, value, f"{in_words(value)} us") for name, value in us.items()])
    rows = (
        (name, in_words(us[name]), f"{share:.1%}".replace("%", " %"))
        for name, share in profile.functions.items()
    )
    figures = table(("function", "us", "share"), rows)
    yield f"<details><summary>{escape(profile.name)} as a table</summary>{figures}</details>"


def circumstances(run: KeptRun, previous: KeptRun | None) -> str:
    """Return a table of the machine, the load and the commit of this run and the previous run."""
    runs = [run] if previous is None else [run, previous]
    heads = ("of", "this run", "previous run")[: len(runs) + 1]
    rows = [
        ("time", *(each.at for each in runs)),
        ("commit", *(each.commit for each in runs)),
        ("machine", *(each.machine for each in runs)),
        ("Python", *(each.python for each in runs)),
        ("load before, after", *(", ".join(map(in_words, each.load)) for each in runs)),
        ("options", *(each.options for each in runs)),
    ]
    return table(heads, rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table without the columns that are empty in all rows."""
    cells = list(rows)
    columns = [n for n in range(len(heads)) if any(row[n] for row in cells)]
    head = "".join(f'<th scope="col">{escape(heads[n])}</th>' for n in columns)
    body = ""
    for row in cells:
        named = (f'<td data-column="{escape(heads[n])}">{escape(row[n])}</td>' for n in columns)
        body += f"<tr>{''.join(named)}</tr>\n"
    return (
        '<div class="table-wrapper"><table class="docutils">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def bars(title: str, rows: Sequence[Bar], logarithmic: bool = False) -> str:
    """Return a chart of horizontal bars, each below its label.

    The bars begin at 0, or at 1 if the scale is logarithmic.
    """
    scale = (lambda value: math.log(max(value, 1e-6))) if logarithmic else float
    marks = [
        0.0 if value is None else scale(value)
        for row in rows
        for value in (None, row.value, row.limit, row.before)
    ]
    low, high = min(marks), max(marks)

    def x(value: float) -> float:
        return 2 + (WIDTH - 4) * (value - low) / ((high - low) or 1.0)

    parts = []
    for number, row in enumerate(rows):
        top = number * ROW + 17
        ends = sorted((x(0.0), x(scale(row.value))))
        parts.append(
            f'<text x="6" y="{top - 4}">{escape(_short(f"{row.label}: ", row.figure))}</text>'
            f'<rect class="bar{"" if row.good else " missed"}" x="{ends[0]:.1f}" y="{top}"'
            f' width="{max(1.0, ends[1] - ends[0]):.1f}" height="{BAR}"/>'
        )
        if row.limit is not None:
            at = x(scale(row.limit))
            parts.append(_line(at, top - 2, at, top + BAR + 2, "before"))
        if row.before is not None:
            at, middle = x(scale(row.before)), top + BAR / 2
            parts.append(f'<circle class="before" cx="{at:.1f}" cy="{middle}" r="3"/>')
    height = len(rows) * ROW + 4
    parts.append(_line(x(0.0), 0, x(0.0), height, "axis"))
    return _svg(f"{title}; the table has the figures", WIDTH, height, "bench", parts)


def latencies(pairs: Pairs) -> str:
    """Return a small chart for each latency curve, all with the same scales."""
    curves = [each.latency_ms for pair in pairs for each in pair if each is not None]
    every = [math.log10(max(ms, 1e-3)) for curve in curves for ms in curve]
    low, high = math.floor(min(every)), math.floor(max(every)) + 1
    # the maximum is drawn half a step further to the right
    across = -math.log10(1 - QUANTILES[-2]) + 0.5

    def x(quantile: float) -> float:
        return 34 + (SMALL - 38) * min(-math.log10(max(1 - quantile, 1e-9)) / across, 1.0)

    def y(ms: float) -> float:
        return HIGH - 18 - (HIGH - 40) * (math.log10(max(ms, 1e-3)) - low) / (high - low)

    def curve(values: Sequence[float], name: str) -> str:
        steps = zip(QUANTILES, values, strict=False)
        points = " ".join(f"{x(quantile):.1f},{y(ms):.1f}" for quantile, ms in steps)
        return f'<polyline class="{name}" points="{points}"/>'

    charts = []
    for current, old in pairs:
        parts = [f'<text x="2" y="12">{escape(_short(current.name, "", 28))}</text>']
        for power in range(low, high + 1):
            parts.append(_line(34, y(10.0**power), SMALL - 4, y(10.0**power), "axis"))
            parts.append(f'<text x="2" y="{y(10.0**power) + 4:.1f}">{10.0**power:g}</text>')
        for at in (0.5, 0.9, 0.99, 0.999):
            parts.append(f'<text x="{x(at) - 10:.1f}" y="{HIGH - 4}">{100 * at:g}</text>')
        if old is not None and old.latency_ms:
            parts.append(curve(old.latency_ms, "before"))
        parts.append(curve(current.latency_ms, "curve"))
        values = zip(QUANTILES, current.latency_ms, strict=False)
        said_aloud = ", ".join(f"p{100 * at:g} {in_words(ms)} ms" for at, ms in values)
        charts.append(
            _svg(f"Latency of {current.name}: {said_aloud}", SMALL, HIGH, "bench small", parts)
        )
    return "\n".join(charts)


def _svg(title: str, width: int, height: int, classes: str, parts: list[str]) -> str:
    return (
        f'<svg class="{classes}" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _short(label: str, figure: str, most: int = 56) -> str:
    room = most - len(figure)
    return (label if len(label) <= room else f"{label[: room - 3]}...  ") + figure


def _number(limit: str) -> float | None:
    match = re.search(r"\d+(?:\.\d+)?", limit)
    return float(match[0]) if match else None
