"""Many simultaneous players: a new host with all limits enabled, and the players of `svcctl demo`.

    python -m bench.evening [--players 200] [--hunts 20] [--hunt-seconds 20] [--json FILE]

All requests pass through each player's own relay and the gateway. The chat and the deploy server
are loaded at the same time. The host and the players share this machine. The host is a demo host on
other ports, with the settings below and a port range that is wide enough for every party. This
program prints the output of `svcctl demo --once --times`, and the longest turns of the metagame's
event loop. It exits with 1 if the session failed or a turn took longer than the limit.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from bench import turns
from bench.kept import finish, json_option
from bench.servers import on_the_generators_core
from bench.table import FloorTable
from svcserver.ctl.blueprint import Ports
from svcserver.ctl.host_creation import create_host

FIRST = 11_000  # the host's TCP ports from here on
UDP = 13_000  # the game servers'
RELAYS = 11_100
MOST = 1_000  # players
SHOWN = 15  # turns
MOST_MS = 20.0  # of a turn, without the time in which it waits for a core


def set_all(folder: Path, settings: dict[str, dict[str, str]]) -> None:
    """Append settings to each component's env file, where a later line overrides an earlier one."""
    for component, values in settings.items():
        with (folder / f"{component}.env").open("a", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in values.items())


def settings(players: int) -> dict[str, dict[str, str]]:
    """Return settings for these players, who do in minutes what takes real players hours."""
    parties = -(-players // 4)
    return {
        "deploy": {"PORT_RANGE_BEGIN": str(UDP), "PORT_RANGE_END": str(UDP + 2 * parties + 20)},
        "gateway": {"GATEWAY_RATE_GENERAL": "3000,1800"},
        "allowlist": {"ALLOWLIST_MAX_ENTRIES": str(min(1_000, max(256, players)))},
    }


def main() -> None:
    """Create the host, let the players play, and print the figures."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--players", type=int, default=200)
    options.add_argument("--hunts", type=int, default=20)
    options.add_argument("--hunt-seconds", type=float, default=20.0)
    json_option(options)
    arguments = options.parse_args()
    on_the_generators_core()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "host"
        ports = Ports(
            metagame=FIRST,
            deploy=FIRST + 1,
            content=FIRST + 2,
            allowlist=FIRST + 3,
            chat=FIRST + 4,
            gateway=FIRST + 5,
            relay=RELAYS,
            hunts=UDP,
            city=UDP + MOST,
            metagame_figures=FIRST + 20,
            gateway_figures=FIRST + 21,
            deploy_figures=FIRST + 22,
            content_figures=FIRST + 23,
            allowlist_figures=FIRST + 24,
        )
        create_host(folder, "127.0.0.1", "owner", ports=ports, demo=True)
        set_all(folder, settings(arguments.players))
        programs = turns.watching(Path(name) / "programs", Path(name) / "turns")
        command = [str(programs / "svcctl"), "demo", "--once"]
        command += ["--config", str(folder), "--times"]
        command += ["--players", str(arguments.players), "--hunts", str(arguments.hunts)]
        command += ["--hunt-seconds", str(arguments.hunt_seconds)]
        began = time.monotonic()
        status = subprocess.run(command, check=False).returncode
        slow = turns.longest(Path(name) / "turns", count=SHOWN)
    turns.print_turns(slow, began)
    table = FloorTable()
    table.below("longest turn of the event loop", slow[0].own_ms if slow else 0.0, "ms", MOST_MS)
    if status:
        table.add("exit status of the session", status, less=True, good=False)
    table.print_table()
    raise SystemExit(finish(arguments.json, table.rows))


if __name__ == "__main__":
    main()
