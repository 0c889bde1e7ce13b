"""``svcctl doctor``: runs all checks; a fault found by one never hides the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from svcserver.ctl.database import user_name
from svcserver.ctl.doctor import files, live, matching, places, reading, storage
from svcserver.ctl.doctor.case import Case, Check, Finding, Level
from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Out, fail

CHECKS: tuple[Check, ...] = (
    reading.settings,  # fills the Case for the others
    matching.secrets,
    matching.figures,
    matching.signing_keys,
    matching.shielding,
    matching.upstreams,
    matching.games,
    files.certificate,
    files.game_server,
    files.game_files,
    files.launcher,
    files.owners,
    files.private_files,
    storage.workers,
    storage.told,
    storage.storage,
    live.live_state,
    storage.clock,
    places.ports,
    places.room,
    places.firewall,
)


@click.command("doctor")
@about_a_host
def doctor(host: Host, out: Out) -> None:
    """Look for what is wrong with a host; each finding names its cure. Changes nothing."""
    if host.folder is None:
        fail("the doctor looks at a whole host; give its folder with --config DIR")
    if not any(host.folder.glob("*.env")):
        fail(f"{host.folder} is no host: it has no settings; make one with svcctl init DIR")
    found = examine(host, host.folder)
    wrong = [one for one in found if one.level is Level.WRONG]
    out.data({"ok": not wrong, "findings": [as_data(one) for one in found]})
    for one in found:
        out.say(str(one))
    if wrong:
        fail(f"{len(wrong)} {'thing is' if len(wrong) == 1 else 'things are'} wrong")
    out.say("nothing is wrong")


def examine(host: Host, folder: Path, machine: Machine | None = None) -> Sequence[Finding]:
    """All findings, the wrong ones first."""
    case = Case(host, folder.absolute(), machine or Machine())
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found.extend(check(case))
        except PermissionError as error:
            what = f"{error.filename}: {user_name(os.geteuid())} may not look at it"
            cure = "run this as root, or let the user of the host read it"
            found.append(Finding("host", what, cure))
    return sorted(found, key=lambda one: one.level is not Level.WRONG)


def as_data(one: Finding) -> dict[str, str]:
    """The object of a finding in ``svcctl doctor --json``."""
    return {
        "level": one.level.value,
        "component": one.component,
        "what": one.what,
        "cure": one.cure,
    }


__all__ = ["doctor", "examine"]
