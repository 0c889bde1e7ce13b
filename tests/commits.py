"""The rules for commit messages, for the ``commit-msg`` hook and ``make check``.

python -m tests.commits FILE    # one message, as git passes it to the hook
python -m tests.commits         # every commit since the last release
"""

import subprocess
import sys
from pathlib import Path

RELEASE = "v0.2.0"
LONGEST = 72  # characters of a subject
GENERATED = ("Revert ", "fixup! ", "squash! ")
MERGES = ("Merge branch ", "Merge remote-tracking ", "Merge pull request ", "Merge tag ")  # of git


def fault(message: str) -> str | None:
    """Return what is wrong with a commit message, or None."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0].rstrip() if lines else ""
    if subject.startswith(GENERATED):
        return None
    if not subject:
        return "the subject is empty"
    if subject.startswith(MERGES):
        return "merges are not taken: rebase"
    if len(subject) > LONGEST:
        return f"the subject has {len(subject)} characters: write at most {LONGEST}"
    if subject.endswith("."):
        return "the subject ends with a full stop: remove it"
    if len(lines) > 1 and lines[1].strip():
        return "the second line is not empty: a body follows an empty line"
    return None


def is_shallow() -> bool:
    """Return whether this clone lacks the older commits."""
    ask = ["git", "rev-parse", "--is-shallow-repository"]
    return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip() == "true"


def since_release() -> int:
    """Check every commit since RELEASE; return the exit status."""
    history = ["git", "log", "--no-merges", "--format=%h%x00%B%x01", f"{RELEASE}..HEAD"]
    try:
        done = subprocess.run(history, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print("commit messages are not checked: git is not installed")
        return 0
    if done.returncode or is_shallow():
        print(f"commit messages are not checked: this clone has no {RELEASE}, or is shallow")
        return 0
    faults = 0
    for commit in filter(str.strip, done.stdout.split("\x01")):
        name, _, message = commit.strip().partition("\0")
        if (wrong := fault(message)) is not None:
            print(f"{name}: {wrong}")
            faults += 1
    return 1 if faults else 0


def main(words: list[str]) -> int:
    """Check the message in a file, or all messages since the release if no file is given."""
    if not words:
        return since_release()
    wrong = fault(Path(words[0]).read_text(encoding="utf-8"))
    if wrong is not None:
        print(f"commit message: {wrong}", file=sys.stderr)
    return 0 if wrong is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
