"""What build is running: the owner's words, else the package's own."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from attrs import frozen

from svcserver.metagame.settings import Settings


@frozen
class Build:
    """Shown in the banner and in the server status."""

    version: str
    commit: str
    source_url: str

    @classmethod
    def of(cls, settings: Settings) -> Build:
        """SERVER_VERSION, GIT_COMMIT and SOURCE_URL, or what the package knows."""
        return cls(
            settings.server_version or _package_version(),
            settings.git_commit or "unknown",
            settings.source_url,
        )


def _package_version() -> str:
    try:
        return version("svcserver")
    except PackageNotFoundError:
        return "unknown"
