"""Load a release's image without disturbing the images of the machine's own hosts."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packages.support import run


@contextmanager
def loaded(archive: Path) -> Iterator[str]:
    """Load an image under a name of our own, because a host may use the image's usual name."""
    with name_kept(archive) as called:
        name = f"{called.rpartition(':')[0]}:test-{os.getpid()}"
        run("podman", "load", "-q", "-i", archive)
        run("podman", "tag", called, name)
    try:
        yield name
    finally:
        run("podman", "rmi", name)  # without --force, which would also remove containers


@contextmanager
def name_kept(archive: Path) -> Iterator[str]:
    """Yield the name that ``podman load`` gives to the image in ``archive``.

    Afterwards, the image that had the name before gets it back.
    """
    [called] = json.loads(run("tar", "-xOf", archive, "manifest.json"))[0]["RepoTags"]
    before = named(called)
    try:
        yield called
    finally:
        if before:
            run("podman", "tag", before, called)
        elif named(called):
            run("podman", "untag", called, called)


def named(name: str) -> str:
    """Return the id of the image with this name, or an empty string."""
    return run("podman", "images", "-q", "--no-trunc", "--filter", f"reference={name}").strip()
