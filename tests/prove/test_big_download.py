"""A launcher is killed five times while it downloads ten gigabytes; its memory does not grow.

The test prints its measurements. ``SVC_PROVE_GB`` sets a smaller size for a machine with a small
disk.
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.live.big_download import IN_FLIGHT, download
from tests.support.requirements import skip

pytestmark = pytest.mark.live

GB = 10**9
KILLS = 5


def test_ten_gigabytes_keep_memory_flat(tmp_path: Path) -> None:
    wanted = int(os.environ.get("SVC_PROVE_GB", "10"))
    if shutil.disk_usage(tmp_path).free < 2 * wanted * GB:
        raise skip("disk", f"{2 * wanted} GB of free disk are needed")
    done = download(tmp_path, 8, wanted * GB // 8, KILLS, 3600.0)
    print(
        f"{done.total / GB:.1f} GB in {done.seconds:.0f} s, {done.sent - done.total} bytes twice, "
        f"{done.memory >> 20} MB resident at most, {done.idle_memory >> 20} MB before"
    )
    shutil.rmtree(tmp_path / "games")
    assert done.sent - done.total <= KILLS * IN_FLIGHT, done
    assert done.memory - done.idle_memory < 100 << 20, done
