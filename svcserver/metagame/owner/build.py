"""The running version: as set by the owner, else the package's."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from attrs import frozen

from svcserver.metagame.settings import Settings


@frozen
class Build:
    """The version data of the banner and the server status."""

    version: str
    commit: str
    source_url: str

    @classmethod
    def of(cls, settings: Settings) -> Build:
        """From SERVER_VERSION, GIT_COMMIT and SOURCE_URL, else the package's version."""
        return cls(
            settings.server_version or _package_version(),
            settings.git_commit or "unknown",
            settings.source_url,
        )


@cache  # what is installed stays so, and its metadata is read as a letter
def _package_version() -> str:
    try:
        return version("svcserver")
    except PackageNotFoundError:
        return "unknown"
