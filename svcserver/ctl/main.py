"""The command ``svcctl`` for owners, with the list of its subcommands.

A subcommand's module is imported when needed, because importing all modules takes seconds.
"""

import errno
import gc
import importlib
import logging
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import click

from svcserver.ctl.output import fail, show_defect, usage_error
from svcserver.kernel.umask import let_nobody_else_write

# name: module below svcserver.ctl, and the command in it
COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": ("up", "up"),
    "init": ("init", "init"),
    "account": ("as_owner_commands", "account"),
    "guild": ("as_owner_commands", "guild"),
    "registration": ("as_owner_commands", "registration"),
    "gameserver": ("as_owner_commands", "gameserver"),
    "gameserver-key": ("accounts", "gameserver_key"),
    "invite": ("accounts", "invite"),
    "db": ("database_copy", "db"),
    "backup": ("backup.command", "backup"),
    "content": ("content_commands", "content"),
    "cert": ("certificates", "cert"),
    "keys": ("keys", "keys"),
    "ban": ("as_owner_commands", "ban"),
    "unban": ("as_owner_commands", "unban"),
    "mute": ("as_owner_commands", "mute"),
    "unmute": ("as_owner_commands", "unmute"),
    "kick": ("as_owner_commands", "kick"),
    "sanctions": ("moderation", "sanctions"),
    "announce": ("as_owner_commands", "announce"),
    "audit": ("moderation", "audit"),
    "passport": ("passports", "passport"),
    "dashboard": ("dashboard", "dashboard"),
    "status": ("status_command", "status"),
    "figures": ("status_command", "figures"),
    "capacity": ("capacity", "capacity"),
    "alerts": ("alerts", "alerts"),
    "drain": ("maintenance", "drain"),
    "update": ("maintenance", "update"),
    "restart": ("maintenance", "restart"),
    "upgrade": ("maintenance", "upgrade"),
    "fleet": ("fleet", "fleet"),
    "doctor": ("doctor.command", "doctor"),
    "bundle": ("bundle", "bundle"),
    "relay": ("edge_commands", "relay"),
    "allowlist": ("edge_commands", "allowlist"),
    "openapi": ("openapi", "openapi"),
    "play": ("play_command", "play"),
    "demo": ("demo", "demo"),
}
CURES = {
    errno.EACCES: "run this as the owner of the file",
    errno.EPERM: "run this as the owner of the file",
    errno.EROFS: "its disk is mounted read-only",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room on its disk",
    errno.EIO: "check its disk",
}
"""The advice that a command prints for an error of the operating system."""
_QUIET = logging.NullHandler()


class Commands(click.Group):
    """A command group that imports a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command: click.Command = getattr(_imported(f"svcserver.ctl.{module}"), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; turn a file-system error into a one-line error message."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise usage_error(error) from None
        except OSError as why:
            if why.errno not in CURES or why.filename is None:
                raise
            fail(f"{why.filename}: {why.strerror}; {CURES[why.errno]}")


def _imported(module: str) -> ModuleType:
    """Import and return the module.

    Garbage collection is off during the import, and later collections ignore the imported objects.
    This saves a quarter of the start-up time.
    """
    known = sys.modules.get(module)
    if known is not None:
        return known
    on = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if on:
            gc.freeze()
            gc.enable()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="svcserver", prog_name="svcserver")
def main() -> None:
    """Manage a svcserver host."""
    let_nobody_else_write()
    # a failing command must print one line, without the log lines of libraries
    logging.getLogger().addHandler(_QUIET)
    sys.excepthook = show_defect


if __name__ == "__main__":
    main()
