"""``svcctl figures``: weeks of the metagame's figures."""

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
@click.option("--range", "span", type=click.Choice(RANGES), default="day", help="How far back.")
@about_a_host
def figures(host: Host, out: Out, span: str) -> None:
    """Show load, errors, memory and players over time.

    A table shows the newest spans that had something to show; --json has them all.
    """
    data = owner_of(host).find("DashboardFigures", range=span)
    if data is None:
        fail("nothing is counted here; set BACKEND_HEALTH=1 in metagame.env and start it again")
    out.data(data)
    rows = [_row(data, number) for number in range(len(data["at"]))]
    out.table(HEADS, rows[-LINES:])


def _row(data: dict[str, Any], number: int) -> list[str]:
    def text(column: str, unit: str = "") -> str:
        value = data[column][number]
        return "-" if value is None else f"{value}{unit}"

    return [
        datetime.fromtimestamp(data["at"][number], UTC).strftime("%Y-%m-%d %H:%M"),
        text("requestsPerSecond"),
        text("latencyP95UpperMs", " ms"),
        text("clientErrors"),
        text("serverErrors"),
        text("loopP95Ms", " ms"),
        text("rssMB", " MB"),
        text("players"),
        text("playersMost"),
    ]
