"""Prepares the process of a component, then replaces itself with ``twistd`` (exec).

On Linux the kernel ends this process with the stack: after a SIGKILL of the stack no child may
keep its ports.

With ``--prepared`` it imports the service and reads its settings, which is most of a start's work.
Then it prints a line and waits for a byte on its standard input, while the previous process serves.
"""

from __future__ import annotations

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
NEED_RIGHTS = ("svc-stack", "svc-gateway", "svc-allowlist")  # port 443, the firewall
PREPARED = "--prepared"  # the first argument, and the line that reports it


def main() -> None:
    """Replace this process by ``twistd --nodaemon --pidfile= ARGUMENTS``."""
    os.setsid()  # Ctrl-C is for the stack, which stops its children in order
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
        sys.exit(0)  # it is not needed
    sys.argv = [*twistd, *words]
    run()


def prepare(plugin: str, *options: str) -> Callable[[], None]:
    """Import the service, check its settings, and return the function of ``twistd``.

    Ends the process if its settings are bad.
    """
    gc.disable()  # imports leave no garbage, and a metagame collects it itself
    module = import_module(f"svcserver.{plugin.removeprefix('svc-')}.service")
    parsed = module.Options()
    parsed.parseOptions(list(options))
    from svcserver.kernel.settings import off_unless_1  # which the service has imported by now

    if off_unless_1(parsed.environ.get("CHAT", "")):
        import_module("svcserver.metagame.chat_ports")
    run: Callable[[], None] = import_module("twisted.scripts.twistd").run
    import_module("twisted.internet.reactor")
    gc.enable()
    return run


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies; does nothing on other systems."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)


def drop_rights() -> None:
    """Give up the stack's rights of root, for this process and its children."""
    if os.geteuid() != 0:
        try:
            reduce_rights()
        except OSError as error:
            sys.exit(f"the rights of root cannot be given up: {error.strerror}")


if __name__ == "__main__":
    main()
