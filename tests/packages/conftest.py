"""What the tests of packages share: one build of everything that a release consists of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages.support import build, need


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``make release`` leaves, built once for all of them."""
    need("dpkg-buildpackage", "dh", "lintian", "mmdebstrap", "buildah", "podman", "ip")
    folder = tmp_path_factory.mktemp("release")
    build("release.py", folder)
    return folder


@pytest.fixture(scope="session")
def wheel(release: Path) -> Path:
    """The wheel of that release."""
    [made] = release.glob("svcserver-*.whl")
    return made


@pytest.fixture(scope="session")
def package(release: Path) -> Path:
    """The Debian package of that release."""
    [made] = release.glob("svcserver_*.deb")
    return made
