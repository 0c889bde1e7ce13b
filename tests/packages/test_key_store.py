"""The launcher stores its keys in a real key store, GNOME's, on a separate message bus.

The test is not among the live tests, because CI would have to install a desktop for each change.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from svcserver.launcher.keystore import IN_STORE
from tests.packages.support import need_everything

pytestmark = pytest.mark.packages

PATIENCE_S = 120
KEY = "UUK_" + "5a" * 24
UNLOCKED = 'printf word | gnome-keyring-daemon --unlock --components=secrets >&2 && exec "$@"'
KEEPS = f"""\
import sys
from pathlib import Path
from svcserver.kernel.secrets import Secret
from svcserver.launcher.keystore import SystemKeys, open_keys
def opened():
    keys = open_keys(Path(sys.argv[1]))
    assert isinstance(keys, SystemKeys), keys
    return keys
opened().put("a host", Secret("{KEY}"))
found = opened().get("a host")
assert found is not None and found.matches("{KEY}")
opened().drop("a host")
assert opened().get("a host") is None
opened().put("another", Secret("{KEY}"))
"""


def beside_a_key_store(home: Path, *words: object, typed: str = "") -> str:
    """Return the output of a command in a session with an unlocked key store."""
    (home / ".local" / "share" / "keyrings").mkdir(parents=True, exist_ok=True)
    (home / "run").mkdir(mode=0o700, exist_ok=True)
    environ = {
        **os.environ,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "SVC_LAUNCHER_HOME": str(home / "launcher"),
    }
    command = ["dbus-run-session", "--", "sh", "-ec", UNLOCKED, "sh", *map(str, words)]
    ran = subprocess.run(
        command,
        env=environ,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the home folder of a player with a desktop."""
    need_everything()
    return tmp_path


def test_a_key_is_kept_in_the_store_of_the_system_and_in_no_file(home: Path) -> None:
    state = home / "launcher" / "state"
    state.mkdir(parents=True)
    beside_a_key_store(home, sys.executable, "-c", KEEPS, state)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix == ".keyring"]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_the_launcher_says_that_its_key_is_in_the_system_store(home: Path) -> None:
    launcher = Path(sys.executable).with_name("svc-launcher")
    output = beside_a_key_store(home, launcher, "--no-browser", "--no-links", typed="quit\n")
    assert IN_STORE in output
