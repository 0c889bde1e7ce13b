"""The results of benches as data: JSON files in ``bench/kept``, and the change between two runs."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import orjson
from attrs import field, frozen
from attrs.converters import optional
from cattrs.errors import BaseValidationError
from cattrs.preconf.orjson import make_converter

FOLDER = Path(__file__).parent / "kept"
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)  # of latency curves
HEADS = ("what", "figure", "compared", "limit", "p50, p99 ms", "CPU, us")
# a smaller change is not called better or worse; between two runs of the same code on one machine,
# nine of ten changes were smaller
NOISE = 0.35

CONVERTER = make_converter(omit_if_default=True)
Results = TypeVar("Results", "Part", "KeptRun")


def rounded(value: float) -> float:
    """Return the value with four significant digits."""
    return float(f"{value:.4g}")


def _all_rounded(values: Sequence[float]) -> list[float]:
    return [rounded(value) for value in values]


def in_words(value: float) -> str:
    """Return the value with as many digits as a reader needs."""
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def quantiles_ms(ordered: Sequence[float], parts: Sequence[float] = QUANTILES) -> list[float]:
    """Return these quantiles of sorted seconds, in milliseconds; 0 for an empty list."""
    last = len(ordered) - 1
    return [
        1e3 * ordered[max(0, min(last, int(len(ordered) * at) - 1))] if ordered else 0.0
        for at in parts
    ]


@frozen
class Measurement:
    """One figure of a bench, with its ratio to a yardstick of the same run."""

    name: str
    value: float = field(converter=rounded)
    unit: str
    less: bool = False  # a lower value is better
    ratio: float | None = field(default=None, converter=optional(rounded))
    yardstick: str = ""
    limit: str = ""  # of the ratio if there is a ratio, otherwise of the value
    good: bool = True
    p50_ms: float | None = field(default=None, converter=optional(rounded))
    p99_ms: float | None = field(default=None, converter=optional(rounded))
    cpu_us: float | None = field(
        default=None, converter=optional(rounded)
    )  # of the server, a request
    latency_ms: list[float] = field(factory=list, converter=_all_rounded)  # at QUANTILES

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table row, in the order of ``HEADS``."""
        times = [in_words(ms) for ms in (self.p50_ms, self.p99_ms) if ms is not None]
        return (
            self.name,
            f"{in_words(self.value)} {self.unit}".strip(),
            "" if self.ratio is None else f"{self.ratio:.2f} x {self.yardstick}",
            self.limit if self.good else f"{self.limit} MISSED".strip(),
            ", ".join(times),
            "" if self.cpu_us is None else in_words(self.cpu_us),
        )


@frozen
class Profile:
    """The functions that use the most CPU time in one scenario."""

    name: str
    cpu_us: float = field(converter=rounded)  # without the profiler
    functions: dict[str, float] = field(factory=dict)  # share of the CPU time of the main thread


@frozen
class Part:
    """The results of one bench."""

    measurements: list[Measurement] = field(factory=list)
    profiles: list[Profile] = field(factory=list)


@frozen
class KeptRun:
    """The results of all benches of a run, with the circumstances of the run."""

    at: str
    commit: str
    machine: str
    python: str
    load: list[float]  # before the run and after it
    options: str
    parts: dict[str, Part] = field(factory=dict)


def json_option(options: ArgumentParser) -> None:
    """Add the option that writes the results as data."""
    options.add_argument("--json", type=Path, help="also write the results into this file")


def finish(path: Path | None, rows: list[Measurement]) -> int:
    """Write the rows of a bench to ``path`` if it is given; return 1 if a limit is missed."""
    if path is not None:
        write(path, Part(rows))
    return int(any(not row.good for row in rows))


def write(path: Path, results: Part | KeptRun) -> None:
    """Write results into a file; every named member of a list begins a new line."""
    text = orjson.dumps(CONVERTER.unstructure(results), option=orjson.OPT_APPEND_NEWLINE)
    path.write_bytes(text.replace(b'},{"name"', b'},\n{"name"'))


def load_results(path: Path, kind: type[Results]) -> Results:
    """Return the results in a file; exit with one line if the file cannot be read."""
    try:
        return CONVERTER.structure(orjson.loads(path.read_bytes()), kind)
    except (OSError, ValueError, BaseValidationError, TypeError) as error:
        why = type(error).__name__ if isinstance(error, BaseValidationError) else error
        raise SystemExit(
            f"{path} has no results of a bench: {why}. Restore or remove it."
        ) from None


def latest(folder: Path = FOLDER, count: int = 2) -> list[KeptRun]:
    """Return the latest stored runs, the newest first; file names begin with the time."""
    return [
        load_results(path, KeptRun) for path in sorted(folder.glob("*.json"))[: -count - 1 : -1]
    ]


def change(current: Measurement, previous: Measurement | None) -> float | None:
    """Return the relative change of the ratio, or of the value if there is no ratio."""
    if previous is None or current.unit != previous.unit:
        return None
    if current.ratio is None or previous.ratio is None:
        return current.value / previous.value - 1 if previous.value else None
    return current.ratio / previous.ratio - 1 if previous.ratio else None


def earlier(part: str, current: Measurement, previous: KeptRun | None) -> Measurement | None:
    """Return the same measurement of the previous run, if that run has it."""
    parts = previous.parts if previous is not None else {}
    for measurement in parts.get(part, Part()).measurements:
        if (measurement.name, measurement.yardstick) == (current.name, current.yardstick):
            return measurement
    return None


def verdict(current: Measurement, previous: Measurement | None, same_machine: bool) -> str:
    """Return the change in words, such as ``+5 %, better``; "" if there is no previous figure.

    Changes within the noise, and between machines of two kinds, are not called better or worse.
    """
    by = change(current, previous)
    if by is None:
        return ""
    judged = ""
    if same_machine and abs(by) > NOISE:
        judged = ", worse" if (by > 0) is current.less else ", better"
    return f"{by:+.0%}{judged}".replace("%", " %")
