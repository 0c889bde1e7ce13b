"""What staff can do in the dashboard can be done by ``svcctl`` as well, with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping

import click
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.main import main
from tests.contract.test_audit import READS, STAFF
from tests.support.game import Game

# every act of a route, not one a route: what its body may ask for, and the words that do the same
TWINS: Mapping[str, tuple[str, ...]] = {
    "DELETE /svc/api/InviteCode/<code>": ("invite revoke",),
    "POST /svc/api/CreateInvite": ("invite create --uses",),
    "POST /svc/api/DashboardAlertTest": ("alerts test",),
    "POST /svc/api/DashboardAnnouncement": (
        "announce --for --restart-in",
        "announce --clear",
    ),
    "POST /svc/api/DashboardBan": ("ban --for --reason --note --addresses",),
    "POST /svc/api/DashboardDelete": ("account delete --reason",),
    "POST /svc/api/DashboardDrain": ("drain on --reason --then", "drain off", "update when-empty"),
    "POST /svc/api/DashboardExport": ("account export",),
    "POST /svc/api/DashboardGameServer": (
        "gameserver start",
        "gameserver stop",
        "gameserver restart",
    ),
    "POST /svc/api/DashboardKick": ("kick --reason",),
    "POST /svc/api/DashboardMergeNotes": ("account merge-notes --reason",),
    "POST /svc/api/DashboardMute": ("mute --for --reason --note --addresses",),
    "POST /svc/api/DashboardNewKey": ("account new-key",),
    "POST /svc/api/DashboardOwnKey": ("account dashboard-key", "account dashboard-key --off"),
    "POST /svc/api/DashboardRole": ("account promote --role", "account demote"),
    "POST /svc/api/DashboardSecondFactor": (
        "account second-factor",
        "account second-factor --off",
    ),
    "POST /svc/api/DashboardUnban": ("unban --reason",),
    "POST /svc/api/DashboardUnmute": ("unmute --reason",),
    "POST /svc/api/DisbandGuild": ("guild disband",),
    "POST /svc/api/GrantEntitlement": ("account grant --hours",),
    "POST /svc/api/RegisterInviteCode": ("invite create --uses",),
    "POST /svc/api/RegistrationStatus": ("registration",),
    "POST /svc/api/RenameUser": ("account rename",),
    "POST /svc/api/RevokeEntitlement": ("account revoke",),
    "POST /svc/api/RollbackCharacter": ("account rollback --character",),
    "POST /svc/api/RollbackLoadout": ("account rollback --loadouts",),
    "POST /svc/api/SeedProgression": ("account seed",),
    "GET /svc/api/BackendHealth": ("status",),
    "GET /svc/api/DashboardAccounts": ("account list",),
    "GET /svc/api/DashboardAlerts": ("alerts list",),
    "GET /svc/api/DashboardAnnouncement": ("announce",),
    "GET /svc/api/DashboardAudit": ("audit --actor --target --since --until",),
    "GET /svc/api/DashboardConsole": ("gameserver console",),
    "GET /svc/api/DashboardDrain": ("drain status",),
    "GET /svc/api/DashboardFigures": ("figures --range",),
    "GET /svc/api/DashboardGameServers": ("gameserver list",),
    "GET /svc/api/DashboardOpenApi": ("openapi",),
    "GET /svc/api/DashboardPeople": ("account list",),
    "GET /svc/api/DashboardPerson": ("account show",),
    "GET /svc/api/DashboardSanctions": ("sanctions",),
    "GET /svc/api/GetAllUsers": ("account list",),
    "GET /svc/api/Guilds": ("guild list",),
    "GET /svc/api/InviteCodes": ("invite list",),
    "GET /svc/api/PrivateOnlineStats": ("status",),
    "GET /svc/api/SaveHistory": ("account saves",),
}
WITHOUT_JSON = {"openapi"}  # what it writes is JSON
SHOWN = {  # a view of the page, which changes nothing; acts on it have their commands
    "GET /svc/api/DashboardEntitlements",
    "GET /svc/api/DashboardEvents",
    "GET /svc/api/DashboardLoadoutDiff",
    "GET /svc/api/DashboardSaveDiff",
    "GET /svc/api/Progression",
}
OF_THE_PAGE = {  # a session of the browser; a token to act as a player, which no page offers
    "POST /svc/api/DashboardSession",
    "GET /svc/api/DashboardSession",
    "DELETE /svc/api/DashboardSession",
    "GET /svc/api/DashboardAccess",
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
    def test_every_route_has_a_command(self) -> None:
        """Reads too: what has none is named, with the reason."""
        routes = {
            row.name
            for row in Game(self, BACKEND_HEALTH="1").door.rows
            if row.access in STAFF and row.path.startswith("/svc/api/")
        }
        self.assertEqual(routes - READS - OF_THE_PAGE - SHOWN, TWINS.keys())
        self.assertEqual((OF_THE_PAGE | SHOWN) - routes, set())

    def test_every_twin_is_there_with_its_options_and_prints_json(self) -> None:
        for words in {one for twins in TWINS.values() for one in twins}:
            name, *asked = words.split(" --")
            command = command_of(name)
            assert command is not None, words
            options = {option for one in command.params for option in one.opts}
            wanted = {f"--{one}" for one in asked}
            self.assertEqual(wanted - options, set(), words)
            if name not in WITHOUT_JSON:
                self.assertIn("--json", options, words)
