"""``svcctl rehearse``: the faults really come about, and the cures work.

Why processes: the faults are done to a real host.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.ctl.hosts import run

pytestmark = pytest.mark.live

# no text may be empty: it would be found in anything
SHOWN = {  # the step with the fault, and what the owner sees there
    "full-disk": (1, "DISK_RESERVE_MB", "soon nothing can be saved", "503"),
    "bad-certificate": (1, "does not belong", "does not belong", "cannot be reached"),
    "lost-database": (1, "made a new, empty database", "holds no key of an account", "404"),
    "expired-certificate": (1, "expired", "expired", "cannot be reached"),
    "lost-signing-key": (1, "AUTH_SIGNING_PRIVKEY_B64", "nobody can log in", "oauth/token"),
    "port-taken": (1, "cannot listen", "is held by a program", "cannot be reached"),
}


# slow: two of them start a whole host twice
@pytest.mark.parametrize("fault", sorted(SHOWN))
def test_a_fault_is_brought_about_seen_and_cured(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ran = run("rehearse", fault, "--json")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    told = orjson.loads(ran.stdout)
    assert told["cured"]
    at, log, doctor, player = SHOWN[fault]
    first, broken, last = told["steps"][0], told["steps"][at], told["steps"][-1]
    assert not first["doctor"]
    assert not last["doctor"]
    assert last["player"] == first["player"] == "saves, and is served"
    assert log in " ".join(broken["log"])
    assert doctor in " ".join(broken["doctor"])
    assert player in broken["player"]
    assert not list(tmp_path.glob("svc-rehearse-*"))
