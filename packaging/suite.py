"""The Debian release that builds need; ``python packaging/suite.py`` checks this machine."""

import platform

SUITE, NAME = "bookworm", "Debian 12"


def need_suite() -> None:
    """Exit with an error on another system; otherwise apt would fail minutes later.

    The Debian package is made for the Python of this machine, but in the image it runs on the
    Python of SUITE.
    """
    try:
        release = platform.freedesktop_os_release()
    except OSError:  # no Linux, or a very small one
        release = {}
    if release.get("VERSION_CODENAME") != SUITE:
        name = release.get("PRETTY_NAME", platform.system())
        raise SystemExit(
            f"a release and its image must be built on {NAME} ({SUITE}), but this is {name}: "
            f"build there, or in a container (podman run -it --privileged debian:{SUITE})"
        )


if __name__ == "__main__":
    need_suite()
