"""CPU time of a request by function: each scenario runs on its own metagame, under cProfile.

    python -m bench.functions [--scenarios heartbeat,login,...] [--players 50] [--seconds 2]

The CPU time of a request comes from a run without the profiler, and the shares of the functions
from a run with the profiler. The profiler sees only the main thread, so the writer's thread is
missing.
"""

import argparse
import pstats
import re
import tempfile
from pathlib import Path

import uvloop

from bench.http import scenario
from bench.kept import Part, Profile, json_option, rounded, write
from bench.servers import metagame, on_the_generators_core

SCENARIOS = "heartbeat,login,save,inventory,mix"
SHOWN = 12
WAITS = "poll' of 'select.epoll"
BUILT_IN = "built-in method "
Code = tuple[str, int, str]  # file, line and function, as pstats has them


def label(code: Code) -> str:
    """Return ``module:function`` of a function, without the folders of this machine."""
    file, line, name = code
    if not line:  # a function in C
        method = re.fullmatch(r"<method '(.*)' of '(.*)' objects>", name)
        return f"{method[2]}.{method[1]}" if method else name.strip("<>").removeprefix(BUILT_IN)
    parts = Path(file.removesuffix(".py")).parts or ("compiled",)  # code that has no file
    tops = [parts.index(top) for top in ("svcserver", "site-packages") if top in parts]
    first = tops[-1] + (parts[tops[-1]] == "site-packages") if tops else len(parts) - 1
    return f"{'.'.join(parts[first:])}:{name}"


def shares(seconds: dict[Code, float], most: int = SHOWN) -> dict[str, float]:
    """Return the functions with the most CPU time, and each function's share of the total.

    The time of a function does not include the functions that it calls.
    """
    by_label: dict[str, float] = {}
    for code, own in seconds.items():
        if WAITS not in code[2]:
            by_label[label(code)] = by_label.get(label(code), 0.0) + own
    total = sum(by_label.values()) or 1.0
    ordered = sorted(by_label.items(), key=lambda item: -item[1])[:most]
    return {name: rounded(own / total) for name, own in ordered}


def profile(name: str, folder: Path, players: int, seconds: float) -> Profile:
    """Measure one scenario with and without the profiler."""
    with metagame(folder, f"{name}-plain") as server:
        plain = uvloop.run(scenario(name, server, players, seconds))
    saved = folder / f"{name}.stats"
    options = ("--profile", str(saved), "--profiler", "cprofile", "--savestats")
    with metagame(folder, name, options=options) as server:
        uvloop.run(scenario(name, server, players, seconds))
    stats = pstats.Stats(str(saved)).stats  # type: ignore[attr-defined]  # typeshed omits it
    return Profile(name, plain.server_us, shares({code: row[2] for code, row in stats.items()}))


def main() -> None:
    """Profile the scenarios and print a table of each."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--scenarios", default=SCENARIOS)
    options.add_argument("--players", type=int, default=50)
    options.add_argument("--seconds", type=float, default=2.0)
    json_option(options)
    arguments = options.parse_args()
    on_the_generators_core()
    profiles = []
    for name in arguments.scenarios.split(","):
        with tempfile.TemporaryDirectory() as folder:
            made = profile(name, Path(folder), arguments.players, arguments.seconds)
        profiles.append(made)
        print(f"\n| {name}: {made.cpu_us:.0f} us a request | share |\n|---|---:|")
        for function, share in made.functions.items():
            print(f"| {function} | {share:.1%} |")
    if arguments.json is not None:
        write(arguments.json, Part(profiles=profiles))


if __name__ == "__main__":
    main()
