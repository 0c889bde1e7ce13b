"""``svcctl``: the table of contents of the owner's command line."""

from __future__ import annotations

import click

from svcserver.ctl.accounts import account, gameserver_key, invite
from svcserver.ctl.demo import demo
from svcserver.ctl.init import init
from svcserver.ctl.playing import play


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Look after a svcserver host."""


for command in (init, demo, play, account, gameserver_key, invite):
    main.add_command(command)


if __name__ == "__main__":
    main()
