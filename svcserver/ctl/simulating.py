"""Runs a simulation for ``svcctl simulate`` and tells what came of it."""

from __future__ import annotations

import os
import signal
import sys
from math import ceil
from pathlib import Path
from typing import Any

import click

from svcserver.ctl.output import Out, fail
from svcserver.sim import picture
from svcserver.sim.recorded import recorded
from svcserver.sim.run import Result, Wish, simulate
from svcserver.sim.script import HOST, Step, script
from svcserver.sim.shrink import command, shrunk

STOPPED = 130  # the exit status of what Ctrl-C has ended: the whole has not been seen
BAR = 1000  # steps of the progress bar
SHOW_CURSOR = b"\x1b[?25h\n"  # which the bar has hidden


def run(out: Out, wish: Wish, shown: Path | None, *, shrink: bool) -> None:
    """Run it and tell; fails where the host was wrong."""
    result = with_bar(wish, quiet=out.as_json)
    out.say(*picture.summary(result))
    if shown is not None:
        write_timeline(shown, result)
        out.say(f"the timeline stands in {shown}")
    out.data(data_of(result))
    if result.violations:
        replay(out, result, shrink=shrink)
        fail(f"the host was wrong {len(result.violations)} times with seed {wish.seed}")
    if result.stopped:
        raise SystemExit(STOPPED)


def with_bar(wish: Wish, *, quiet: bool) -> Result:
    """Run it, with a progress bar for a person who watches; Ctrl-C ends it early, once."""
    asked = False

    def ask(*_: Any) -> None:
        nonlocal asked
        if asked:
            _leave()
        asked = True

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # of a program in the background Ctrl-C wants nothing
        signal.signal(signal.SIGINT, ask)
    try:
        if quiet or not sys.stderr.isatty():
            return simulate(wish, lambda part: asked)
        with click.progressbar(length=BAR, file=sys.stderr, label=f"seed {wish.seed}") as bar:

            def turn(part: float) -> bool:
                bar.update(int(part * BAR) - bar.pos)
                return asked

            return simulate(wish, turn)
    finally:
        signal.signal(signal.SIGINT, before)


def _leave() -> None:
    """End at once: services that are simulated would take an exception for a fault of theirs.

    Nothing is left behind: the database is in memory, or in a file that has no name.
    """
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), SHOW_CURSOR)
    os._exit(STOPPED)


def data_of(result: Result) -> dict[str, Any]:
    """The object of ``svcctl simulate --json``."""
    return {
        "seed": result.wish.seed,
        "stopped": result.stopped,
        "hash": result.hash,
        "violations": len(result.violations),
        "steps": result.steps,
        "requests": result.requests,
        "hunts": result.hunts,
        "lines": result.lines,
        "simulatedSeconds": round(result.simulated_s),
        "cpuSeconds": round(result.cpu_s, 3),
        "wrong": [
            {"at": round(one.at, 3), "rule": one.rule, "what": one.what}
            for one in result.violations
        ],
    }


def read_steps(file: Path) -> list[Step]:
    """The steps of a file, one a line; lines that begin with ``#`` are for people."""
    try:
        lines = file.read_text().splitlines()
        return [Step.read(one) for one in lines if one.strip() and not one.startswith("#")]
    except (OSError, ValueError) as why:
        fail(f"{file} is no list of steps: {why}")


def wish_of(out: Out, file: Path, seed: int, *, faults: bool) -> Wish:
    """The evening of a flight recorder's file."""
    try:
        with file.open(encoding="utf-8") as lines:
            found = recorded(lines)
    except (OSError, ValueError) as why:
        fail(f"{file} is no recording: {why}")
    if not found.steps:
        fail(f"{file} holds nothing that a simulated player does")
    out.say(
        f"{file}: {found.players} players, {len(found.steps)} steps in {found.seconds:.0f} s;"
        f" {found.left_out} requests are left out, which no simulated player makes"
    )
    steps = list(found.steps)
    if faults:
        steps += [
            one
            for one in script(seed, found.players, found.seconds, faults=True)
            if one.who == HOST
        ]
        steps.sort(key=lambda one: one.at)
    seconds = float(ceil(found.seconds))  # as many as ``--days`` can tell
    return Wish(seed, found.players, seconds, faults, steps, given=("--from", str(file)))


def write_timeline(file: Path, result: Result) -> None:
    """As HTML, SVG or text, by the name of the file."""
    made = {".html": picture.page, ".svg": picture.svg}.get(file.suffix, picture.text)
    try:
        file.write_text(made(result) + "\n")
    except OSError as why:
        fail(f"{file} cannot be written: {why.strerror}")


def replay(out: Out, result: Result, *, shrink: bool) -> None:
    """Print the command that shows the violation again; ``shrink``: with the fewest steps."""
    wish = result.wish
    if not shrink:
        out.say(f"again: {command(wish)}", "the fewest steps that show it: the same with --shrink")
        return
    steps = shrunk(result)
    file = Path(f"seed-{wish.seed}.steps")
    file.write_text("".join(f"{one.line()}\n" for one in steps))
    out.say(f"{len(steps)} steps show it: {command(wish, str(file))}")
    out.say(*(f"  {one.line()}" for one in steps[:40]))
