"""The image of a release among those of a machine whose owner may run a host of the same name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packages.support import run


@contextmanager
def loaded(archive: Path) -> Iterator[str]:
    """An image by a name of this test's: by its own name a host of this machine may run already."""
    with name_kept(archive) as called:
        name = f"{called.rpartition(':')[0]}:test-{os.getpid()}"
        run("podman", "load", "-q", "-i", archive)
        run("podman", "tag", called, name)
    try:
        yield name
    finally:
        run("podman", "rmi", name)  # not by force, which would remove containers, too


@contextmanager
def name_kept(archive: Path) -> Iterator[str]:
    """The name that ``podman load`` gives an image; afterwards it is again whose it was before."""
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
    """The image of that name; empty without one."""
    return run("podman", "images", "-q", "--no-trunc", "--filter", f"reference={name}").strip()
