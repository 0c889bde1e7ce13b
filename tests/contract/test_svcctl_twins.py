"""What staff can do in the dashboard can be done by ``svcctl`` as well, with ``--json``."""

from __future__ import annotations

import click
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.main import main
from tests.contract.test_audit import READS, STAFF
from tests.support.game import Game

TWINS = {
    "DELETE /svc/api/InviteCode/<code>": "invite revoke",
    "POST /svc/api/CreateInvite": "invite create",
    "POST /svc/api/DashboardAlertTest": "alerts test",
    "POST /svc/api/DashboardAnnouncement": "announce",
    "POST /svc/api/DashboardBan": "ban",
    "POST /svc/api/DashboardDelete": "account delete",
    "POST /svc/api/DashboardDrain": "drain on",
    "POST /svc/api/DashboardExport": "account export",
    "POST /svc/api/DashboardGameServer": "gameserver restart",
    "POST /svc/api/DashboardKick": "kick",
    "POST /svc/api/DashboardMergeNotes": "account merge-notes",
    "POST /svc/api/DashboardMute": "mute",
    "POST /svc/api/DashboardNewKey": "account new-key",
    "POST /svc/api/DashboardOwnKey": "account dashboard-key",
    "POST /svc/api/DashboardRole": "account promote",
    "POST /svc/api/DashboardSecondFactor": "account second-factor",
    "POST /svc/api/DashboardUnban": "unban",
    "POST /svc/api/DashboardUnmute": "unmute",
    "POST /svc/api/DisbandGuild": "guild disband",
    "POST /svc/api/GrantEntitlement": "account grant",
    "POST /svc/api/RegisterInviteCode": "invite create",
    "POST /svc/api/RegistrationStatus": "registration",
    "POST /svc/api/RenameUser": "account rename",
    "POST /svc/api/RevokeEntitlement": "account revoke",
    "POST /svc/api/RollbackCharacter": "account rollback",
    "POST /svc/api/RollbackLoadout": "account rollback",
    "POST /svc/api/SeedProgression": "account seed",
}
OF_THE_PAGE = {  # a session of the browser; a token to act as a player, which no page offers
    "POST /svc/api/DashboardSession",
    "DELETE /svc/api/DashboardSession",
    "POST /svc/api/GenerateJWTForUserId",
}


def command_of(words: str) -> click.Command | None:
    """The command of svcctl; None where there is none."""
    found: click.Command | None = main
    for word in words.split():
        if not isinstance(found, click.Group):
            return None
        found = found.get_command(click.Context(found), word)
    return found


class TwinTests(SynchronousTestCase):
    def test_every_act_has_a_command(self) -> None:
        acts = {
            row.name
            for row in Game(self, BACKEND_HEALTH="1").door.rows
            if row.access in STAFF and row.method != "GET" and row.path.startswith("/svc/api/")
        }
        self.assertEqual(acts - READS - OF_THE_PAGE, TWINS.keys())

    def test_every_command_prints_json(self) -> None:
        for words in TWINS.values():
            command = command_of(words)
            assert command is not None, words
            options = {option for one in command.params for option in one.opts}
            self.assertIn("--json", options, words)
