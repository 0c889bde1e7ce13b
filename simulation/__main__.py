"""``python -m simulation``: simulate days of a whole host and its players from one seed."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import click
from twisted.logger import globalLogBeginner

from simulation import picture
from simulation.ledger import NoScratch
from simulation.run import Result, Scenario, simulate
from simulation.script import Step
from simulation.shrink import command, shrunk
from svcserver.kernel import json

DAY_S = 86_400.0
STOPPED = 130  # the exit status after Ctrl-C: only a part of the run was checked
BAR = 1000  # steps of the progress bar
SHOW_CURSOR = b"\x1b[?25h\n"  # the progress bar hides it
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("simulation")
@click.option(
    "--days",
    type=click.FloatRange(0, 366, min_open=True),
    default=1 / 24,
    help="Length of the run.",
)
@click.option("--players", type=click.IntRange(1, 400), help="By default 20; with --swarm 8.")
@click.option("--seed", type=int, default=1, help="The same seed gives the same run.")
@click.option("--faults", is_flag=True, help="Break disks, lines, services and game servers.")
@click.option("--swarm", is_flag=True, help="Run game servers on a Docker Swarm of 3 machines.")
@click.option("--steps", "file", type=FILE, help="Run the steps in this file, not the seed's.")
@click.option(
    "--timeline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a timeline of the players to this .html, .svg or .txt file.",
)
@click.option("--shrink", is_flag=True, help="After a violation, search for the fewest steps.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    days: float,
    players: int | None,
    seed: int,
    faults: bool,
    swarm: bool,
    file: Path | None,
    timeline: Path | None,
    shrink: bool,
    as_json: bool,
) -> None:
    """Simulate days of a whole host in minutes, and check every reply to its players.

    The real services run in one process, without sockets, on a simulated clock, network and disk.
    The exit status is 1 if a rule was violated.
    """
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    steps = None if file is None else read_steps(file)
    seconds = float(max(1, round(days * DAY_S)))
    scenario = Scenario(
        seed,
        players or (8 if swarm else 20),  # the machines have room for some five hunts
        seconds,
        faults,
        steps,
        steps_file="" if file is None else str(file),
        swarm=swarm,
    )
    try:
        result = with_bar(scenario, quiet=as_json)
    except NoScratch as error:
        raise click.ClickException(str(error)) from error
    if timeline is not None:
        write_timeline(timeline, result)
    if as_json:
        click.echo(json.dump(data_of(result)))
    else:
        click.echo("\n".join(picture.summary(result)))
        if timeline is not None:
            click.echo(f"timeline written to {timeline}")
    if result.violations:
        if not as_json:
            replay(result, shrink=shrink)
        count = len(result.violations)
        raise click.ClickException(f"seed {seed}: {count} violations")
    if result.stopped:
        raise SystemExit(STOPPED)


def with_bar(scenario: Scenario, *, quiet: bool) -> Result:
    """Run the simulation with a progress bar on a terminal; the first Ctrl-C ends it early."""
    stop_requested = False

    def on_interrupt(*_: Any) -> None:
        nonlocal stop_requested
        if stop_requested:
            _leave()
        stop_requested = True

    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.SIG_IGN:  # a program in the background keeps ignoring Ctrl-C
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        if quiet or not sys.stderr.isatty():
            return simulate(scenario, lambda part: stop_requested)
        with click.progressbar(length=BAR, file=sys.stderr, label=f"seed {scenario.seed}") as bar:

            def turn(part: float) -> bool:
                bar.update(int(part * BAR) - bar.pos)
                return stop_requested

            return simulate(scenario, turn)
    finally:
        signal.signal(signal.SIGINT, previous)


def _leave() -> None:
    """Exit immediately: the simulated services would treat an exception as their own error.

    Nothing remains on the machine: the database is in memory, or in a file without a name.
    """
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), SHOW_CURSOR)
    os._exit(STOPPED)


def data_of(result: Result) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    return {
        "seed": result.scenario.seed,
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
            {"at": round(violation.at, 3), "rule": violation.rule, "what": violation.what}
            for violation in result.violations
        ],
    }


def read_steps(file: Path) -> list[Step]:
    """Return the steps in a file, one per line; lines that begin with ``#`` are comments."""
    try:
        lines = file.read_text().splitlines()
        return [
            Step.parse_line(line) for line in lines if line.strip() and not line.startswith("#")
        ]
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{file} is not a list of steps: {error}") from error


def write_timeline(file: Path, result: Result) -> None:
    """Write the timeline as HTML, SVG or text, depending on the file's name."""
    drawn = {".html": picture.page, ".svg": picture.svg}.get(file.suffix, picture.text)
    try:
        file.write_text(drawn(result) + "\n")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error


def replay(result: Result, *, shrink: bool) -> None:
    """Print the command that repeats the violation; with ``shrink``, first reduce the steps."""
    scenario = result.scenario
    if not shrink:
        click.echo(f"repeat it: {command(scenario)}\nfind the fewest steps: add --shrink")
        return
    steps = shrunk(result)
    file = Path(f"seed-{scenario.seed}.steps")
    file.write_text("".join(f"{step.line()}\n" for step in steps))
    click.echo(f"{len(steps)} steps repeat it: {command(scenario, str(file))}")
    click.echo("\n".join(f"  {step.line()}" for step in steps[:40]))


if __name__ == "__main__":
    main()
