"""Two hours of play, simulated within minutes: memory and file descriptors do not grow."""

import os
from pathlib import Path

from tests.ctl.hosts import change, demo_host, read_output, run, stack, value
from tests.live.test_stack import ALL, pid_of
from tests.support.processes import eventually

EVENINGS = 52
WARM = 32  # sessions after which the page cache and all other caches are full
PLAYERS = 8
SLACK_KIB = 12 * 1024


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return each component's resident memory in KiB and its number of open files."""
    results = {}
    for component in ALL:
        pid = pid_of(folder, component)
        assert pid is not None, read_output(folder)
        status = Path(f"/proc/{pid}/status").read_text()
        rss = int(status.partition("VmRSS:")[2].split()[0])
        results[component] = (rss, len(os.listdir(f"/proc/{pid}/fd")))
    return results


def test_memory_and_open_files_do_not_grow_over_many_evenings(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    # all players share one address, so raise its limits: this test measures growth
    for limit in ("GENERAL", "CONTENT", "REGISTER", "TOKEN", "CONNECT", "WS"):
        change(folder, "gateway", f"GATEWAY_RATE_{limit}", "100000,100000")
    change(folder, "allowlist", "ALLOWLIST_MAX_ENTRIES", "1000")
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder), 60)
        pids = {entry: pid_of(folder, entry) for entry in ALL}
        warm: dict[str, tuple[int, int]] = {}
        for evening in range(EVENINGS):
            port = value(folder, "relay", "SVC_RELAY_PORT")
            words = ("--players", PLAYERS, "--hunts", 2, "--relay-port", port)
            done = run("play", "--config", folder, *words)
            assert done.returncode == 0, done.stdout + done.stderr
            if evening == WARM:
                warm = state(folder)
        assert {entry: pid_of(folder, entry) for entry in ALL} == pids, "a component was restarted"
        last = state(folder)
    for component, (rss, files) in last.items():
        assert rss - warm[component][0] < SLACK_KIB, (component, warm[component], rss)
        assert files - warm[component][1] <= PLAYERS, (component, warm[component], files)
    assert "Traceback" not in read_output(folder)
