"""The command: see the package."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import warnings
from pathlib import Path

from hypothesis import Phase, settings

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.running import SURVIVED, Target, healthy, judge, load
from tests.mutation.table import targets

PROFILE = "mutation"


def main() -> None:
    """Exit 1 when fewer than ``--floor`` of a hundred mutants die."""
    asked = _arguments()
    if asked.file is None:
        _whole_table(asked.most, asked.seed)
    warnings.simplefilter("ignore")
    # fixed seeds, nothing remembered, and no time spent on a smaller example of a failure
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile(PROFILE, derandomize=True, database=None, phases=phases)
    settings.load_profile(PROFILE)
    target = Target(Path(asked.file), asked.tests or targets().get(asked.file, []))
    cases = load(target.folders)
    if not target.folders:
        raise SystemExit(f"mutation: no tests are known of {asked.file}; name them with --tests")
    chosen = _sample(mutants_of(target.source), asked.most, asked.seed)
    health = healthy(target, cases)
    if judge(target, cases, health, None) != SURVIVED:
        raise SystemExit("mutation: the tests fail without a fault when imported anew")
    survivors: list[Mutant] = []
    for mutant in chosen:
        verdict = judge(target, cases, health, mutant)
        if asked.verbose:
            sys.stdout.write(f"{verdict}\t{mutant}\n")
        if verdict == SURVIVED:
            survivors.append(mutant)
    killed = len(chosen) - len(survivors)
    share = 100 * killed / max(1, len(chosen))
    for mutant in survivors:
        sys.stdout.write(f"{asked.file}\t{mutant}\n")
    sys.stdout.write(f"{asked.file}: {killed} of {len(chosen)} killed, {share:.0f} %\n")
    raise SystemExit(share < asked.floor)


def _whole_table(most: int, seed: int) -> None:
    """Every file of the table, each in a process of its own."""
    low = 0
    for file, tests in targets().items():
        words = [file, "--most", str(most), "--seed", str(seed), "--tests", *tests]
        low += subprocess.run(
            [sys.executable, "-m", "tests.mutation", *words], check=False
        ).returncode
    raise SystemExit(bool(low))


def _sample(found: list[Mutant], most: int, seed: int) -> list[Mutant]:
    if not most or len(found) <= most:
        return found
    picked = sorted(random.Random(seed).sample(range(len(found)), most))
    return [found[place] for place in picked]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("file", nargs="?", help="the file to break; none: all of the table")
    parser.add_argument("--tests", nargs="+", default=[], help="files or folders of tests")
    parser.add_argument("--most", type=int, default=0, help="a sample of so many; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--floor", type=float, default=85, help="per cent that must die")
    parser.add_argument("--verbose", action="store_true", help="every mutant, not survivors only")
    return parser.parse_args()


if __name__ == "__main__":
    main()
