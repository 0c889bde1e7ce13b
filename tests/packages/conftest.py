"""Fixtures of the package tests; all tests use the files of one release build."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages import images
from tests.packages.support import build, need_everything

# for a machine within a machine: no systemd, and no right to raise limits
ENGINE = """\
[engine]
cgroup_manager = "cgroupfs"
runtime = "{runtime}"
[containers]
default_ulimits = ["nofile=8192:8192", "nproc=2000:2000"]
"""


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a release: SVC_TEST_RELEASE, or the output of ``release.py``."""
    need_everything()
    if "SVC_TEST_RELEASE" in os.environ:
        return Path(os.environ["SVC_TEST_RELEASE"]).absolute()
    folder = tmp_path_factory.mktemp("release")
    build("release.py", folder)
    return folder


@pytest.fixture(scope="session")
def wheel(release: Path) -> Path:
    [made] = release.glob("svcserver-*.whl")
    return made


@pytest.fixture(scope="session")
def package(release: Path) -> Path:
    [made] = release.glob("svcserver_*.deb")
    return made


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, release: Path) -> Iterator[str]:
    """Load the release's image and configure podman to run it; yield the image's name."""
    engine = tmp_path_factory.mktemp("engine") / "containers.conf"
    engine.write_text(ENGINE.format(runtime="runc" if shutil.which("runc") else "crun"))
    [archive] = release.glob("*-image.tar")
    with pytest.MonkeyPatch.context() as patches:
        patches.setenv("CONTAINERS_CONF", str(engine))
        with images.loaded(archive) as name:
            yield name
