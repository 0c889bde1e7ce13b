"""Downloads from package registries in tests, repeated while no registry answers.

If no registry ever answers, the test is skipped, because an outage is no fault of the change under
test. ``.ci/run`` lists ``registries`` in SVC_TEST_REQUIRE: there an outage fails the run, because a
skipped test proves nothing.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.requirements import skip

PAUSES_S = (5.0, 20.0)  # before the second try, and before the third
LAST_WORDS = 500
# messages of pip and npm about a registry that is missing, disconnects or fails
AWAY = re.compile(
    r"Retrying \(Retry\(|Max retries exceeded|Connection (?:broken|reset)|Read timed out"
    r"|HTTP error \d{3} while getting|(?:Client|Server) Error|\(from versions: none\)"
    r"|E: (?:Failed|Unable) to fetch"
    r"|npm (?:error|ERR!) (?:code (?:E\d{3}|EAI_|ECONN|ENET|EHOST|EPIPE|E\w*TIMEDOUT|E\w*TIMEOUT"
    r"|ENOTFOUND|ERR_SOCKET|ERR_STREAM)|network)"
)


def is_away(output: str) -> bool:
    """Return whether this output means that a registry could not be reached."""
    return AWAY.search(output) is not None


def loaded(
    command: Iterable[str | Path],
    patience_s: float,
    folder: Path | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> subprocess.CompletedProcess[str]:
    """Run a program that downloads packages, repeatedly if no registry answers; return its outcome.

    Skip the test if no registry ever answers. A failure for another reason is returned immediately.
    """
    words = [str(entry) for entry in command]
    for pause in (*PAUSES_S, None):
        try:
            done = subprocess.run(
                words, cwd=folder, capture_output=True, text=True, timeout=patience_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise skip("registries", f"{words} took more than {patience_s:.0f} s") from None
        output = done.stdout + done.stderr
        if done.returncode == 0 or not is_away(output):
            return done
        if pause is not None:
            wait(pause)
    raise skip("registries", f"{words} cannot load: {output[-LAST_WORDS:]}")
