"""The command: see the package."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import warnings
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.page import write_page
from tests.mutation.records import Record, names_of
from tests.mutation.running import SURVIVED, Target, healthy, judge, load
from tests.mutation.table import targets

PROFILE = "mutation"


def main() -> None:
    """Exit 1 when fewer than ``--floor`` of a hundred mutants die."""
    asked = _arguments()
    if asked.page:
        write_page()
        return
    if asked.file is None:
        _whole_table()
    tests = asked.tests or targets().get(asked.file, [])
    if not tests:
        raise SystemExit(f"mutation: no tests are known of {asked.file}; name them with --tests")
    target = Target(Path(asked.file), tests)
    found = mutants_of(target.source)
    named = dict(zip(names_of(found), found, strict=True))
    chosen = _sample(list(named), asked.most, asked.seed)
    record = Record(asked.file, list(named))
    if asked.again:
        record.forget()
    left = {name: named[name] for name in chosen if name not in record.verdicts}
    if left:
        _judge(target, left, record)
    raise SystemExit(_told(asked, {name: record.verdicts[name] for name in chosen}, named))


def _judge(target: Target, mutants: dict[str, Mutant], record: Record) -> None:
    warnings.simplefilter("ignore")
    # fixed seeds, nothing remembered, and no time spent on a smaller example of a failure
    phases = (Phase.explicit, Phase.generate)
    slow = [HealthCheck.too_slow]  # as it is on a busy machine
    settings.register_profile(
        PROFILE, derandomize=True, database=None, phases=phases, suppress_health_check=slow
    )
    settings.load_profile(PROFILE)
    cases = load(target.folders)
    health = healthy(target, cases)
    if judge(target, cases, health, None) != SURVIVED:
        raise SystemExit("mutation: the tests fail without a fault when imported anew")
    for name, mutant in mutants.items():
        record.add(name, judge(target, cases, health, mutant))


def _told(asked: argparse.Namespace, verdicts: dict[str, str], named: dict[str, Mutant]) -> bool:
    """Print the survivors and the share; whether it is below the floor."""
    for name, verdict in verdicts.items():
        if asked.verbose:
            sys.stdout.write(f"{verdict}\t{named[name]}\n")
        elif verdict == SURVIVED:
            sys.stdout.write(f"{asked.file}\t{named[name]}\n")
    killed = sum(verdict != SURVIVED for verdict in verdicts.values())
    share = 100 * killed / max(1, len(verdicts))
    sys.stdout.write(f"{asked.file}: {killed} of {len(verdicts)} killed, {share:.0f} %\n")
    sys.stdout.flush()
    return bool(verdicts) and share < asked.floor


def _whole_table() -> None:
    """Every file of the table, each in a process of its own."""
    low = 0
    for file in targets():
        words = [sys.executable, "-m", "tests.mutation", file, *sys.argv[1:]]
        low += subprocess.run(words, check=False).returncode
    raise SystemExit(bool(low))


def _sample(names: list[str], most: int, seed: int) -> list[str]:
    """So many of them, in their order, drawn so that a larger sample holds the smaller one."""
    drawn = names.copy()
    random.Random(seed).shuffle(drawn)
    wanted = set(drawn[: most or len(drawn)])
    return [name for name in names if name in wanted]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("file", nargs="?", help="the file to break; none: all of the table")
    parser.add_argument("--tests", nargs="+", default=[], help="files or folders of tests")
    parser.add_argument("--most", type=int, default=0, help="a sample of so many; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--floor", type=float, default=85, help="per cent that must die")
    parser.add_argument("--verbose", action="store_true", help="every mutant, not survivors only")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--page", action="store_true", help="write the page of the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
