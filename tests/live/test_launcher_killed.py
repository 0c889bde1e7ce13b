"""A launcher killed during a download resumes where it stopped, and its memory does not grow.

``tests/prove/test_big_download.py`` does the same with ten gigabytes. Real processes are needed
because the tests kill the launcher.
"""

from pathlib import Path

import pytest

from tests.live.big_download import IN_FLIGHT, download

pytestmark = pytest.mark.live

MB = 1 << 20


# slow: six files of 40 MB, and a launcher that is killed twice and starts again
def test_a_killed_download_repeats_only_the_pieces_in_flight(tmp_path: Path) -> None:
    done = download(tmp_path, 6, 40 * MB, 2, 120.0)
    assert done.sent - done.total <= 2 * IN_FLIGHT, done
    assert done.memory - done.idle_memory < 60 * MB, done
