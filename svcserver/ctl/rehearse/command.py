"""``svcctl rehearse``: a fault and its cure, on a host that is thrown away afterwards."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from svcserver.ctl.output import Out, fail
from svcserver.ctl.rehearse import faults
from svcserver.ctl.rehearse.host import ThrowAway
from svcserver.ctl.rehearse.telling import Telling


@click.command("rehearse")
@click.argument("fault", type=click.Choice(sorted(faults.FAULTS)))
@click.option("--yes", is_flag=True, help="Do not wait for a key between the steps.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for machines.")
def rehearse(fault: str, yes: bool, as_json: bool) -> None:
    """Break a throw-away host for real, see what you would see, and cure it.

    A host is made in a temporary folder and runs as real processes on free ports of this machine;
    nothing of yours is touched, and all of it is removed at the end.
    """
    out = Out(as_json)
    waits = not (yes or as_json) and sys.stdin.isatty()
    telling = Telling(out, waits)
    out.say(f"a host is made and started; this takes a while: {fault}")
    with (
        tempfile.TemporaryDirectory(prefix="svc-rehearse-") as folder,
        ThrowAway(Path(folder) / "host") as host,
    ):
        well = faults.FAULTS[fault](host, telling)
    out.data({"fault": fault, "cured": well, "steps": telling.steps})
    if not well:
        fail("the cure did not make the host healthy again")
    out.say("the host is healthy again, and has been removed")
