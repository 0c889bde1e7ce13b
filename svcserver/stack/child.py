"""Prepares a component's process, and then executes ``twistd`` in it.

On Linux, the kernel ends this process when the stack ends. So no child keeps its ports, even after
a SIGKILL of the stack.

With ``--prepared``, this process imports the service and reads its settings. Then it prints a line
and waits for a byte on standard input. Meanwhile the previous process still serves.
"""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from svcserver.kernel.rights import reduce_rights

PR_SET_PDEATHSIG = 1
NEED_RIGHTS = ("svc-stack", "svc-gateway", "svc-allowlist")  # for port 443 and for the firewall
PREPARED = "--prepared"  # the first argument, and the line that the prepared child prints


def main() -> None:
    """Replace this process with ``twistd --nodaemon --pidfile= ARGUMENTS``."""
    os.setsid()  # only the stack gets Ctrl-C, and stops its children in order
    end_with_parent()
    words = sys.argv[1:]
    if not {*NEED_RIGHTS} & {*words}:
        drop_rights()
    twistd = [str(Path(sys.executable).with_name("twistd")), "--nodaemon", "--pidfile="]
    if words[0] != PREPARED:
        os.execv(sys.executable, [sys.executable, *twistd, *words])  # noqa: S606 - no shell
    del words[0]
    run = prepare(*words)
    sys.stdout.write(f"{PREPARED}\n")
    sys.stdout.flush()
    if not os.read(sys.stdin.fileno(), 1):
        sys.exit(0)  # this process is not needed
    sys.argv = [*twistd, *words]
    run()


def prepare(plugin: str, *options: str) -> Callable[[], None]:
    """Import the service, check its settings, and return ``twistd``'s run function.

    Exits if the settings are invalid.
    """
    gc.disable()  # imports leave no garbage, and a metagame runs the collector itself
    module = import_module(f"svcserver.{plugin.removeprefix('svc-')}.service")
    parsed = module.Options()
    parsed.parseOptions(list(options))
    from svcserver.kernel.settings import off_unless_1  # already imported by the service

    if off_unless_1(parsed.environ.get("CHAT", "")):
        import_module("svcserver.metagame.chat_ports")
    run: Callable[[], None] = import_module("twisted.scripts.twistd").run
    import_module("twisted.internet.reactor")
    gc.enable()
    return run


def end_with_parent() -> None:
    """On Linux, make the kernel send this process a SIGTERM when its parent ends."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the call
        sys.exit(1)


def drop_rights() -> None:
    """Drop the root rights inherited from the stack, for this process and its children."""
    if os.geteuid() != 0:
        try:
            reduce_rights()
        except OSError as error:
            sys.exit(f"root rights cannot be dropped: {error.strerror}")


if __name__ == "__main__":
    main()
