"""``svcctl``: the owner's command line, with the list of its commands."""

from __future__ import annotations

import logging

import click

from svcserver.ctl.accounts import account, gameserver_key, invite
from svcserver.ctl.certificates import cert
from svcserver.ctl.content_commands import content
from svcserver.ctl.database_commands import db
from svcserver.ctl.database_copy import copy
from svcserver.ctl.demo import demo
from svcserver.ctl.doctor.command import doctor
from svcserver.ctl.edge_commands import allowlist, relay
from svcserver.ctl.init import init
from svcserver.ctl.keys import keys
from svcserver.ctl.moderation import announce, audit, ban, kick, mute, unban, unmute
from svcserver.ctl.openapi import openapi
from svcserver.ctl.passports import passport
from svcserver.ctl.play_command import play
from svcserver.ctl.restart import restart, upgrade
from svcserver.ctl.simulate import simulate_command
from svcserver.ctl.status_command import status

COMMANDS: tuple[click.Command, ...] = (
    init,
    account,
    gameserver_key,
    invite,
    db,
    content,
    cert,
    keys,
    ban,
    unban,
    mute,
    unmute,
    kick,
    announce,
    audit,
    passport,
    status,
    restart,
    upgrade,
    doctor,
    relay,
    allowlist,
    openapi,
    play,
    simulate_command,
    demo,
)
_QUIET = logging.NullHandler()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="svcserver", prog_name="svcserver")
def main() -> None:
    """Look after a svcserver host."""
    # a command fails with one line; warnings that libraries log meanwhile are not printed
    logging.getLogger().addHandler(_QUIET)


for command in COMMANDS:
    main.add_command(command)
db.add_command(copy)


if __name__ == "__main__":
    main()
