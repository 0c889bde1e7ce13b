"""The commands of the owner documentation about packages, run exactly as an owner pastes them."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.packages.support import PATIENCE_S, ROOT
from tests.support.pages import blocks

OWNERS = ROOT / "docs" / "owners"
EXIT_CODE = "exit code: "


def block(page: str, has: str, names: Mapping[str, str] | None = None, sudo: str = "") -> str:
    """Return the page's only shell block that contains ``has``.

    ``names`` maps example words to replacements; each word must occur in the block, so that a
    change of the page's example words is noticed. The tests run as root, so each ``sudo`` in the
    block is replaced by the argument ``sudo``.
    """
    shell = [
        piece.text.replace("sudo ", sudo) for piece in blocks(OWNERS / page) if piece.word == "sh"
    ]
    matches = [piece for piece in shell if has in piece]
    assert len(matches) == 1, f"{page}: {len(matches)} blocks with {has}"
    [text] = matches
    for name, value in (names or {}).items():
        assert name in text, f"{page}: no {name} in {text}"
        text = text.replace(name, value)
    return text


def paste(text: str, folder: Path) -> str:
    """Run the commands in ``folder``; return their output, or fail if the last command fails."""
    ran = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        # so that podman-compose prints each command before the command's output
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, f"{text}\n{ran.stdout}"
    return ran.stdout


def went_well(output: str) -> bool:
    """Return whether all commands succeeded: podman-compose reports failures only in its output."""
    ended = re.findall(rf"(?ms)^podman (?:exec|run --name=\S+_tmp).*?^{EXIT_CODE}(\d+)$", output)
    return bool(ended) and set(ended) == {"0"}
