"""``svcctl init``: a ready-to-run host."""

from __future__ import annotations

from pathlib import Path

import click

from svcserver.ctl.founding import found
from svcserver.ctl.output import Out, program


@click.command("init")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--public-host",
    metavar="H",
    default="127.0.0.1",
    help="The address or name players reach this host by.",
)
@click.option("--owner", metavar="NAME", default="owner", help="The owner's account name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for machines.")
def init(folder: Path, public_host: str, owner: str, as_json: bool) -> None:
    """Write a host's folder: settings, keys, certificate, database, owner. Never overwrites."""
    out = Out(as_json)
    made = found(folder, public_host, owner)
    out.data({"folder": str(made.folder), "owner": made.owner, "fingerprint": made.fingerprint})
    svcctl = program("svcctl")
    out.say(
        f"host         {made.folder}",
        f"owner        {made.owner}, key in owner.key",
        f"fingerprint  {made.fingerprint}",
        "",
        "Next:",
        "  1. deploy.env: GAMESERVER_BINARY_PATH, and CITY_MAP there and in metagame.env",
        f"  2. start:   {program('twistd')} --nodaemon --pidfile= svc-stack --config {made.folder}",
        f"  3. invite:  {svcctl} invite create --config {made.folder}",
        f"  4. look:    {svcctl} status --config {made.folder}",
    )
    if public_host == "127.0.0.1":
        out.say("", "The public host is 127.0.0.1: only this machine can play (--public-host).")
