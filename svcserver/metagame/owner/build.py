"""The running version: SERVER_VERSION if the owner has set it, otherwise the package version."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from attrs import frozen

from svcserver.metagame.settings import MetagameSettings


@frozen
class Build:
    """The version data in the status banner and the server status."""

    version: str
    commit: str
    source_url: str

    @classmethod
    def from_settings(cls, settings: MetagameSettings) -> Build:
        """Return the data from SERVER_VERSION (or the package), GIT_COMMIT and SOURCE_URL."""
        return cls(
            settings.server_version or _package_version(),
            settings.git_commit or "unknown",
            settings.source_url,
        )


@cache  # the installed version does not change, and reading its metadata is slow
def _package_version() -> str:
    try:
        return version("svcserver")
    except PackageNotFoundError:
        return "unknown"
