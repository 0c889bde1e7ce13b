"""``svcctl simulate``: days of a whole host with players, in one process, from one number."""

from __future__ import annotations

from pathlib import Path

import click
from twisted.logger import globalLogBeginner

from svcserver.ctl.output import Out, fail

DAY_S = 86_400.0


@click.command("simulate")
@click.option(
    "--days", type=click.FloatRange(0, 366, min_open=True), default=1 / 24, help="How long."
)
@click.option("--players", type=click.IntRange(1, 400), default=20, help="How many come.")
@click.option("--seed", type=int, default=1, help="The same number gives the same run.")
@click.option("--faults", is_flag=True, help="Break disks, lines, services and game servers.")
@click.option(
    "--steps",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Do the steps of this file instead of the seed's.",
)
@click.option(
    "--from",
    "recording",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Live the evening that a host's flight recorder wrote.",
)
@click.option(
    "--timeline",
    "shown",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write who was where to this .html, .svg or .txt file.",
)
@click.option("--shrink", is_flag=True, help="When something is wrong, look for the fewest steps.")
@click.option("--json", "as_json", is_flag=True, help="One object for machines.")
def simulate_command(
    days: float,
    players: int,
    seed: int,
    faults: bool,
    file: Path | None,
    recording: Path | None,
    shown: Path | None,
    shrink: bool,
    as_json: bool,
) -> None:
    """Live days of a whole host in minutes, and check everything that it tells its players.

    The real services run in one process, without sockets, on a clock, a network and a disk of the
    simulation. The exit status says whether the host was ever wrong.
    """
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    # every service is imported, which the other commands are spared
    from svcserver.ctl import simulating
    from svcserver.sim.ledger import NoScratch
    from svcserver.sim.run import Wish

    out = Out(as_json)
    if recording is not None:
        if file is not None:
            fail("give --steps or --from, not both")
        wish = simulating.wish_of(out, recording, seed, faults=faults)
    else:
        steps = simulating.read_steps(file) if file is not None else None
        given = () if file is None else ("--steps", str(file))
        seconds = float(max(1, round(days * DAY_S)))
        wish = Wish(seed, players, seconds, faults, steps, given=given)
    try:
        simulating.run(out, wish, shown, shrink=shrink)
    except NoScratch as why:
        fail(str(why))
