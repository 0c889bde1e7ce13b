"""``svcctl figures``: weeks of what the metagame counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from svcserver.ctl.as_owner import owner_of
from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Out, fail

RANGES = ("hour", "day", "week", "weeks")
HEADS = [
    "from (UTC)",
    "requests/s",
    "95 % within",
    "4xx",
    "5xx",
    "event loop 95 %",
    "memory",
    "players",
    "most",
]
LINES = 60  # a day has 1,440 minutes


@click.command()
@click.option("--range", "asked", type=click.Choice(RANGES), default="day", help="How far back.")
@about_a_host
def figures(host: Host, out: Out, asked: str) -> None:
    """Requests, errors, memory and players by minutes (hour, day), hours (week) or days (weeks).

    A table shows the newest spans that had something to show; --json has them all.
    """
    said = owner_of(host).find("DashboardFigures", range=asked)
    if said is None:
        fail("nothing is counted here; set BACKEND_HEALTH=1 in metagame.env and start it again")
    out.data(said)
    rows = [_row(said, number) for number in range(len(said["at"]))]
    out.table(HEADS, rows[-LINES:])


def _row(said: dict[str, Any], number: int) -> list[str]:
    def one(name: str, unit: str = "") -> str:
        value = said[name][number]
        return "-" if value is None else f"{value}{unit}"

    return [
        datetime.fromtimestamp(said["at"][number], UTC).strftime("%Y-%m-%d %H:%M"),
        one("requestsPerSecond"),
        one("latencyP95UpperMs", " ms"),
        one("clientErrors"),
        one("serverErrors"),
        one("loopP95Ms", " ms"),
        one("rssMB", " MB"),
        one("players"),
        one("playersMost"),
    ]
