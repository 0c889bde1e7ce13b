"""Audit rows for changes that a command makes outside the database."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from svcserver.ctl.as_owner import actor
from svcserver.ctl.database import transact
from svcserver.ctl.host import Host
from svcserver.ctl.output import Failed, HalfDone, warn
from svcserver.kernel.json import Json
from svcserver.metagame.accounts.audit import BROKEN_OFF, AuditEntry, Trace, add_row

# equal to the time that a starting metagame waits for a lock
WAIT_MS = 5_000
CALLED_OFF: Mapping[str, Json] = {"outcome": "called off: part of it may have been done"}


@contextmanager
def noted(host: Host, action: str, target: str = "", *, reason: str = "") -> Iterator[Trace]:
    """Run the ``with`` block, then add an audit row with ``reason`` and the outcome.

    If the block raises HalfDone, the row contains the error's ``outcome``. If the block raises
    another Failed, the row contains the error's message. After other exceptions, the row says that
    part of the change may have been made. After a success or HalfDone, a warning is printed if the
    row cannot be written within
    ``WAIT_MS``.
    """
    entry, trace = AuditEntry(actor(), action, target, reason), Trace()
    try:
        yield trace
    except HalfDone as why:
        trace.after = {**(trace.after or {}), "outcome": why.outcome}
        _leave(host, entry, trace, None, prefix="the failure of this command is not")
        raise
    except Failed as why:
        _leave(host, entry, Trace(), why.message)  # one line is enough
        raise
    except BaseException as why:
        is_called_off = isinstance(why, KeyboardInterrupt | SystemExit | click.Abort)
        outcome = CALLED_OFF if is_called_off else BROKEN_OFF
        trace.after = {**(trace.after or {}), **outcome}
        _leave(host, entry, trace, None)
        raise
    _leave(host, entry, trace, None, prefix="the change was made, but is not")


def _leave(
    host: Host, entry: AuditEntry, trace: Trace, refused: str | None, *, prefix: str = ""
) -> None:
    """Add the audit row; if that fails and ``prefix`` is not empty, print a warning."""
    if host.folder is None and not host.variables("metagame").get("DATABASE_URL"):
        return  # without a host there is no audit log
    try:
        transact(host, lambda tx: add_row(tx, entry, time.time(), refused, trace), WAIT_MS)
    except Failed as why:
        if prefix:
            warn(f"{prefix} in the audit log: {why.message}")
