"""The commands of ``docs/contributors/first-call.md``, run as a reader pastes them.

Real processes are needed because shell commands call a running metagame.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.pages import blocks
from tests.support.processes import metagame
from tests.support.requirements import skip

pytestmark = pytest.mark.live

PAGE = Path(__file__).parents[2] / "docs" / "contributors" / "first-call.md"


def test_the_pages_calls_register_log_in_and_read_a_character(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        raise skip("curl", "there is no curl")
    names, calls, _ = (block.text for block in blocks(PAGE) if block.word == "sh")
    assert "host=http://127.0.0.1:61000\n" in names
    with metagame(tmp_path) as service:
        own = names.replace(":61000", f":{service.port}")
        ran = subprocess.run(
            ["bash", "-ec", own + calls], capture_output=True, text=True, check=False, timeout=60
        )
    assert ran.returncode == 0, ran.stderr
    [character] = json.loads(ran.stdout)
    assert character["id"]
