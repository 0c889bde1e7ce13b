"""The command ``svcctl doctor``: runs all checks, even after one has found a problem."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from svcserver.ctl.database import user_name
from svcserver.ctl.doctor import files, live, matching, places, reading, storage, swarm
from svcserver.ctl.doctor.case import Case, Finding, Level
from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Out, counted, fail

Check = Callable[[Case], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    reading.settings,  # fills the Case for the other checks
    matching.secrets,
    matching.figures,
    matching.signing_keys,
    matching.shielding,
    matching.upstreams,
    matching.games,
    files.certificate,
    files.game_server,
    swarm.fleet,
    files.game_files,
    files.launcher,
    files.owners,
    files.private_files,
    storage.workers,
    storage.check_alert_channels,
    storage.storage,
    live.live_state,
    storage.clock,
    places.ports,
    places.room,
    places.firewall,
)


@host_command(None, "doctor")
def doctor(host: Host, out: Out) -> None:
    """Find what is wrong with a host and how to fix it.

    Nothing is changed. Each problem is shown with its fix.
    """
    findings = examine(host, host.need_folder("*.env"))
    wrong = [finding for finding in findings if finding.level is Level.WRONG]
    out.data({"ok": not wrong, "findings": [as_data(finding) for finding in findings]})
    for finding in findings:
        out.text(str(finding))
    if wrong:
        fail(f"the host has {counted(len(wrong), 'fault')}. Apply the fixes above.")
    out.text("No faults found.")


def examine(host: Host, folder: Path, machine: Machine | None = None) -> Sequence[Finding]:
    """Run all checks and return the findings, the most serious first."""
    case = Case(host, folder.absolute(), machine or Machine())
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.extend(check(case))
        except PermissionError as error:
            what = f"{error.filename}: {user_name(os.geteuid())} may not read it"
            cure = "run this as root, or let the user of the host read it"
            findings.append(Finding("host", what, cure))
    return sorted(findings, key=lambda finding: finding.urgency)


def as_data(finding: Finding) -> dict[str, str]:
    """Return a finding in the form that ``svcctl doctor --json`` prints."""
    return {
        "level": finding.level.value,
        "component": finding.component,
        "what": finding.what,
        "cure": finding.cure,
    }


__all__ = ["doctor", "examine"]
