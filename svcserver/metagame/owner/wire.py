"""The data shapes shared by ``svcctl`` and several of the owner's features."""

from typing import Annotated, TypedDict

from svcserver.kernel.shapes import Moment, plain_text
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.sanctions import FOREVER, Sanction

Who = Annotated[str, plain_text(1, 64)]
"""An account, by name or id."""
Cell = str | int | float | bool | None
Tables = dict[str, list[dict[str, Cell]]]


class SanctionEntry(TypedDict):
    """A ban or mute; without an end, ``until`` is null.

    ``networks`` lists the banned addresses; an IPv6 ban covers the /64 network.
    """

    reason: str
    note: str
    by: str
    since: Moment
    until: Moment | None
    networks: list[str]


class AccountExport(TypedDict):
    """All data of an account except secrets: each table's rows, with values by column name.

    ``leftOut`` maps a table to how many of its oldest rows are left out.
    """

    account: str
    exportedAt: Moment
    tables: Tables
    leftOut: dict[str, int]


def described(sanction: Sanction | None) -> SanctionEntry | None:
    """Return a sanction as the audit log and replies show it."""
    if sanction is None:
        return None
    return {
        "reason": sanction.reason,
        "note": sanction.note,
        "by": sanction.made_by,
        "since": iso(sanction.made_at),
        "until": None if sanction.ends_at >= FOREVER else iso(sanction.ends_at),
        "networks": [*sanction.networks],
    }
