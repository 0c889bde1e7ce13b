"""The tour of ``docs/owners/first-evening.md`` from an empty machine (``make pictures``).

    python -m tests.packages.empty_machine [FOLDER]

The machine is a Debian system with only apt, made by mmdebstrap. It has a user whose home folder
holds the wheel of this work tree. The program first runs the commands of the page's part *Install*
unchanged, with packages from Debian's and Python's archives. The rest of the tour runs in a network
namespace in which every port is free. Without FOLDER, the program replaces the times and pictures
of the page. With FOLDER, it only writes the pictures into that folder.
"""

import json
import re
import shutil
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from tests.live.owners_pictures import Owner, taken
from tests.live.tour_times import INSTALL, PAGE, machine, written
from tests.packages.support import System, clean_system, need_everything, run
from tests.support.packaging import recipe
from tests.support.pages import Block, blocks

PICTURES = PAGE.parent / "pictures"
NAME = "olga"
HOME = f"/home/{NAME}"
SVCCTL = f"{HOME}/.local/bin/svcctl"
TOOK = "took.json"
INSIDE = "import sys, tests.packages.empty_machine as m; m.inside(sys.argv[1], sys.argv[2])"
TEST = "tests/packages/test_first_evening.py"


def tour(root: Path, wheel: Path, pictures: Path) -> dict[str, float]:
    """Take the tour on a new machine in ``root``; return the seconds of each step."""
    system = clean_system(root, "adduser")
    system.run("useradd", "--create-home", NAME)
    shutil.copy(wheel, root / HOME[1:])
    took = {INSTALL: installed(system)}
    pictures.mkdir(parents=True, exist_ok=True)
    with system.alone() as alone:
        enter = ["ip", "netns", "exec", alone.network]
        run(*enter, sys.executable, "-c", INSIDE, root, pictures)
    took.update(json.loads((root / TOOK).read_text()))
    return took


def installed(system: System) -> float:
    """Run the page's installation commands; return the seconds that they took."""
    begun = time.monotonic()
    for block in install_blocks():
        if "root" in block.needs.split(", "):
            system.run("sh", "-ec", block.text.replace("sudo ", ""))  # the system has no sudo
        else:
            system.run(*as_owner("sh", "-ec", f"cd\n{block.text}"))
    return time.monotonic() - begun


def install_blocks() -> list[Block]:
    """Return the commands in the page's part *Install*."""
    part = re.search(r"(?ms)^## Install\n(.*?)^## ", PAGE.read_text("utf-8"))
    assert part is not None
    return [block for block in blocks(PAGE) if block.text in part[1]]


def as_owner(*words: str) -> tuple[str, ...]:
    """Return the command line with which root runs a command as the owner."""
    who = ("setpriv", f"--reuid={NAME}", f"--regid={NAME}", "--init-groups")
    return (*who, "env", f"HOME={HOME}", *words)


def inside(root: str, pictures: str) -> None:
    """Take the rest of the tour inside the namespace; write the times to a file in ``root``."""
    command = System(Path(root)).command(as_owner(SVCCTL), "root")
    owner = Owner(Path(root) / HOME[1:], HOME, tuple(command))
    steps = taken(Path(pictures), owner).steps
    (Path(root) / TOOK).write_text(json.dumps(steps))


def main() -> None:
    """Take the tour and record how long each step took."""
    need_everything()
    pictures = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    where = machine(date.today(), TEST)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        wheel = recipe("building.py").wheel(folder)
        took = tour(folder / "root", wheel, pictures)
    for step, seconds in took.items():
        print(f"{seconds:6.1f} s  {step}")
    print(f"the pictures are in {pictures}")
    if pictures == PICTURES:
        PAGE.write_text(written(PAGE.read_text("utf-8"), took, where), "utf-8")
        print(f"the times are in {PAGE}")


if __name__ == "__main__":
    main()
