"""The limit of open files and sockets of this process (RLIMIT_NOFILE)."""

import sys

ENOUGH = 65_536


def raise_file_limit() -> int:
    """Raise the soft limit to the lower of ``ENOUGH`` and the hard limit; return the new limit.

    Returns 0 on Windows, which has no such limit. The usual limit of 1,024 is too low for a few
    hundred players with a chat connection each.
    """
    if sys.platform == "win32":
        return 0
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH:
        return soft
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
