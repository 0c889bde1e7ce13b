"""The marks on social routes that control what the log shows. Spec: 1 §4 convention 6."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.rows import Row
from tests.support.game import Game

PREFIXES = ("/party", "/friends", "/guild", "/slayerlink")
MANAGEMENT = ("PartyInvite", "Friends", "GuildInvite", "DisbandGuild")


class MarkTests(SynchronousTestCase):
    def rows(self, **environ: str) -> list[Row]:
        return Game(self, **environ).door.rows

    def test_party_friend_guild_and_link_rows_can_be_captured(self) -> None:
        for environ in ({}, {"GUILDS": "0"}):
            rows = [row for row in self.rows(**environ) if row.path.startswith(PREFIXES)]
            self.assertGreater(len(rows), 20)
            self.assertEqual([row.name for row in rows if not row.body_log], [])

    def test_management_rows_word_bad_json_and_are_not_public(self) -> None:
        rows = {row.name: row for row in self.rows()}
        for name in MANAGEMENT:
            row = rows[f"POST /svc/api/{name}"]
            self.assertIsNotNone(row.bad_json)
            self.assertFalse(row.public)
        self.assertFalse(rows["GET /svc/api/Guilds"].public)
