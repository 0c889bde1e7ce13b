"""``make bench-report``: run the benches, keep their results, and write a page with charts.

    python -m bench.report [--parts requests,edge,...] [--rounds 3] [--seconds 2] [--only-page]

The results go into ``bench/kept``, a file for each run, and the page compares them with those of
the previous run. The documentation shows the same charts of the newest run. The exit status is 1 if
a bench missed a limit.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attrs import evolve

from bench.charts import page
from bench.kept import FOLDER, KeptRun, Part, latest, load_results, rounded, write
from bench.servers import CORES

PAGE = Path("docs/_build/benchmarks.html")
COMMANDS = {
    "requests": ("bench.http", "--rounds", "{rounds}", "--seconds", "{seconds}"),
    "postgresql": (
        *("bench.http", "--database", "postgresql"),
        *("--rounds", "{rounds}", "--seconds", "{seconds}"),
    ),
    "edge": ("bench.edge", "--rounds", "{rounds}", "--seconds", "{seconds}"),
    "chat": ("bench.chat", "--rounds", "{rounds}", "--seconds", "{seconds}"),
    "start": ("bench.start", "--rounds", "{rounds}"),
    "used": ("bench.used", "--rounds", "{rounds}", "--seconds", "{seconds}"),
    "scale": ("bench.scale", "--rounds", "{rounds}", "--seconds", "{seconds}"),
    "evening": ("bench.evening", "--hunts", "5"),
    "functions": ("bench.functions", "--seconds", "{seconds}"),
}


def ran(name: str, rounds: int, seconds: float) -> tuple[Part | None, bool]:
    """Run a bench; return its results, if it wrote any, and whether it met its limits."""
    words = [word.format(rounds=rounds, seconds=seconds) for word in COMMANDS[name]]
    print(f"\n{' '.join(words)}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        command = [sys.executable, "-m", *words, "--json", str(file)]
        status = subprocess.run(command, check=False).returncode
        return load_results(file, Part) if file.exists() else None, not status


def machine() -> str:
    """Return the processor, the number of cores, and the kernel."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = model[1] if model else platform.machine()
    return f"{name}, {len(CORES)} cores, {platform.system()} {platform.release()}"


def commit() -> str:
    """Return the current commit, and whether tracked files have been changed since."""
    command = ["git", "describe", "--always", "--dirty=, with uncommitted changes", "--exclude=*"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def main() -> None:
    """Run the benches, keep the run, and write the page."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--parts", default=",".join(COMMANDS))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--folder", type=Path, default=FOLDER, help="where runs are kept")
    options.add_argument("--page", type=Path, default=PAGE)
    options.add_argument("--only-page", action="store_true", help="measure nothing")
    arguments = options.parse_args()
    names = arguments.parts.split(",")
    if unknown := set(names) - set(COMMANDS):
        options.error(f"unknown part: {', '.join(sorted(unknown))}; known: {', '.join(COMMANDS)}")
    runs = latest(arguments.folder)  # before the benches, so that a damaged file is found at once
    missed: list[str] = []
    if not arguments.only_page:
        fresh, missed = measured(names, arguments)
        runs = [fresh, *runs]
    if not runs:
        raise SystemExit(f"{arguments.folder} has no run. Run `make bench-report` first.")
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    arguments.page.write_text(page(runs[0], runs[1] if len(runs) > 1 else None), "utf-8")
    print(f"\nThe page is {arguments.page}.")
    if missed:
        raise SystemExit(f"Without results, or with a missed limit: {', '.join(missed)}.")


def measured(names: list[str], arguments: argparse.Namespace) -> tuple[KeptRun, list[str]]:
    """Run the benches and keep their results; return the results, and the benches that failed."""
    load, began = rounded(os.getloadavg()[0]), time.gmtime()
    run = KeptRun(
        time.strftime("%Y-%m-%d %H:%M UTC", began),
        commit(),
        machine(),
        platform.python_version(),
        [load, load],
        f"{arguments.rounds} rounds of {arguments.seconds:g} s",
    )
    missed: list[str] = []
    for name in names:
        part, good = ran(name, arguments.rounds, arguments.seconds)
        if not good:
            missed.append(name)
        if part is not None:  # written at once: an interrupted run keeps its complete parts
            run.parts[name] = part
            run = evolve(run, load=[load, rounded(os.getloadavg()[0])])
            arguments.folder.mkdir(parents=True, exist_ok=True)
            write(arguments.folder / time.strftime("%Y-%m-%d-%H%M.json", began), run)
    return run, missed


if __name__ == "__main__":
    main()
