"""The user ``nobody``, and the prefix with which root runs a command as that user.

The clone may be inside a folder that only the folder's owner may enter. In that case the command
runs in a mount namespace where that folder appears empty except for the clone.
"""

from pathlib import Path

NOBODY = 65_534
ROOT = Path(__file__).resolve().parents[2]
SHOW = """
set -e
cd "$2"
mount -t tmpfs -o mode=755 none "$1"
mkdir -p "$2"
mount --no-canonicalize --bind . "$2"
cd "$2"
shift 2
exec "$@"
"""


def as_nobody(*capabilities: str) -> list[str]:
    """Return the command prefix that runs a command as nobody with only these capabilities."""
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    only = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    words.append(f"--bounding-set={only}")
    if capabilities:
        words += [f"--inh-caps={only}", f"--ambient-caps={only}"]
    closed = [folder for folder in ROOT.parents if not folder.stat().st_mode & 0o001]
    if not closed:
        return words
    return ["unshare", "--mount", "sh", "-c", SHOW, "sh", str(closed[-1]), str(ROOT), *words]
