"""The timeline of a run: the players' places and the faults, as text or as HTML with an SVG."""

from html import escape

from simulation.run import Moment, Result
from svcserver.players.requests import NAMES

WIDTH, ROW, LEFT, TOP = 1100, 16, 90, 24
COLOURS = {"away": "#e6e6e6", "city": "#7fb2d9", "hunt": "#d98e5f"}
MOST = 96  # columns of the text
COLUMNS = 1000  # of the picture
FEW = 40  # up to this many faults are lines over all players, more are marks above them
DIGIT, APART = 7, 8  # pixels: the width of a digit, and the gap between two labels
STEPS_H = (1, 2, 3, 6, 12, 24, 48, 120, 240, 480, 1000)  # hours from one label to the next


def _kind(where: str) -> str:
    return where if where in ("away", "city") else "hunt"


def _sampled(moments: list[Moment], most: int) -> list[Moment]:
    """Return at most ``most`` moments; the events of omitted moments are merged."""
    if len(moments) <= most:
        return moments
    step = len(moments) / most
    sampled = []
    for number in range(most):
        part = moments[int(number * step) : max(int(number * step) + 1, int((number + 1) * step))]
        events = tuple(event for moment in part for event in moment.events)
        sampled.append(Moment(part[0].at, part[0].where, events))
    return sampled


def text(result: Result) -> str:
    """Return a line per player: ``.`` offline, ``c`` city, ``H`` hunting; ``!`` marks a fault."""
    moments = _sampled(result.moments, MOST)
    lines = []
    for number in range(result.scenario.players):
        name = f"{NAMES[number % len(NAMES)]}_{number}"
        marks = {"away": ".", "city": "c", "hunt": "H"}
        row = "".join(
            marks[_kind(moment.where[number])] for moment in moments if number < len(moment.where)
        )
        lines.append(f"{name:>9} {row}")
    faults = "".join("!" if moment.events else " " for moment in moments)
    lines.append(f"{'faults':>9} {faults}".rstrip())
    for moment in result.moments:
        lines += [f"{clock(moment.at):>9} {event}" for event in moment.events]
    for wrong in result.violations:
        lines.append(f"{clock(wrong.at):>9} WRONG {wrong}")
    return "\n".join(lines)


def clock(seconds: float) -> str:
    """Return the seconds as ``hours:minutes:seconds``."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def page(result: Result) -> str:
    """Return an HTML page: the SVG with the summary below it."""
    facts = "".join(f"<li>{escape(moment)}</li>" for moment in summary(result))
    broken = "".join(
        f"<li>{clock(moment.at)} {escape(', '.join(moment.events))}</li>"
        for moment in _sampled(result.moments, COLUMNS)
        if moment.events
    )
    return (
        "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>A simulated evening</title>"
        "<style>body{font:14px sans-serif;margin:2em}text{font:11px sans-serif}</style>"
        f"<h1>Seed {result.scenario.seed}</h1>{svg(result)}<ul>{facts}</ul><ol>{broken}</ol>"
        "</html>\n"
    )


def svg(result: Result) -> str:
    """Return an SVG with a row of coloured segments per player; numbered red lines are faults."""
    moments = _sampled(result.moments, COLUMNS)
    end = max(result.moments[-1].at, 1.0)
    scale = (WIDTH - LEFT) / end
    height = TOP + ROW * result.scenario.players + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        'font-family="sans-serif" font-size="11">'
    ]
    for number in range(result.scenario.players):
        y = TOP + ROW * number
        parts.append(f'<text x="0" y="{y + 11}">{NAMES[number % len(NAMES)]}_{number}</text>')
        for begin, stop, kind in _pieces(moments, number, end):
            parts.append(
                f'<rect x="{LEFT + begin * scale:.1f}" y="{y}" '
                f'width="{max(0.5, (stop - begin) * scale):.1f}" '
                f'height="{ROW - 3}" fill="{COLOURS[kind]}"><title>{kind}</title></rect>'
            )
    bottom = TOP + ROW * result.scenario.players
    parts += _faults([moment for moment in moments if moment.events], scale, bottom + 6)
    parts += _hours(end, scale, bottom + 20)
    for at, kind in enumerate(COLOURS):
        x = LEFT + 90 * at
        parts.append(
            f'<rect x="{x}" y="{bottom + 32}" width="12" height="12" fill="{COLOURS[kind]}"/>'
            f'<text x="{x + 16}" y="{bottom + 42}">{kind}</text>'
        )
    return "".join(parts) + "</svg>"


def _faults(broken: list[Moment], scale: float, bottom: int) -> list[str]:
    """Return a line for each moment with faults; the line has no number where there is no room."""
    down = bottom if len(broken) <= FEW else TOP - 2
    parts, free = [], 0.0
    for number, moment in enumerate(broken, 1):
        x = LEFT + moment.at * scale
        wide = DIGIT * len(f"{number}")
        left = min(x - 3, WIDTH - wide)
        if left >= free:
            parts.append(f'<text x="{left:.1f}" y="{TOP - 12}" fill="#c22">{number}</text>')
            free = left + wide + APART
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{down}" stroke="#c22">'
            f"<title>{clock(moment.at)} {escape(', '.join(moment.events))}</title></line>"
        )
    return parts


def _hours(end: float, scale: float, y: int) -> list[str]:
    """Return labels for the hours since the start, as many as fit."""
    wide = DIGIT * len(f"{end // 3600:.0f} h") + APART
    step = next((hours for hours in STEPS_H if hours * 3600 * scale >= wide), STEPS_H[-1])
    return [
        f'<text x="{LEFT + hour * 3600 * scale:.0f}" y="{y}">{hour} h</text>'
        for hour in range(0, int(end // 3600) + 1, step)
        if LEFT + hour * 3600 * scale + wide - APART <= WIDTH
    ]


def _pieces(moments: list[Moment], number: int, end: float) -> list[tuple[float, float, str]]:
    """Return the places where one player stayed, each with the start and the end of the stay."""
    pieces: list[tuple[float, float, str]] = []
    for at, moment in enumerate(moments):
        stop = moments[at + 1].at if at + 1 < len(moments) else end
        kind = _kind(moment.where[number]) if number < len(moment.where) else "away"
        if pieces and pieces[-1][2] == kind:
            pieces[-1] = pieces[-1][0], stop, kind
        else:
            pieces.append((moment.at, stop, kind))
    return pieces


def summary(result: Result) -> list[str]:
    """Return a summary of the run in a few lines."""
    hours = result.simulated_s / 3600
    statuses = ", ".join(f"{count} x {status}" for status, count in result.statuses.items())
    rare = ", ".join(f"{count} x {name}" for name, count in result.rare.items())
    lines = [
        f"{result.scenario.players} players lived {hours:.1f} hours in {result.steps} steps: "
        f"{result.requests} requests, {result.hunts} hunts, {result.lines} chat lines delivered",
        f"answers: {statuses}",
        f"{result.deaths} deaths of services" + (f"; rare things: {rare}" if rare else ""),
        f"{result.speed:.0f} times as fast as life ({result.cpu_s:.1f} s of processor)",
        f"hash {result.hash}",
    ]
    if result.stopped:
        lines.append(f"stopped before the {result.scenario.seconds / 3600:.1f} hours were over")
    violations = len(result.violations)
    lines.append(
        "nothing went wrong" if not violations else f"{violations} times the host was wrong:"
    )
    return lines + [f"  {clock(violation.at)} {violation}" for violation in result.violations]
