"""``svcctl ban``, ``mute``, ``kick``, ``audit`` and roles.

These commands have the same rules as the dashboard, and write the same audit rows.
"""

import json
import sqlite3
import time
from contextlib import closing

from svcserver.metagame.accounts.audit import AuditEntry, add_row
from svcserver.metagame.owner.moderation import acts
from tests.ctl.command import Ran, database_of
from tests.ctl.test_as_owner import RunningHostCase
from tests.support.game import START
from tests.support.proves import proves


class ModerationTests(RunningHostCase):
    def setUp(self) -> None:
        super().setUp()
        self.game.clock.advance(time.time() - START)
        self.ctl("account", "create", "Alpha")

    def rows(self, *words: str) -> list[dict[str, object]]:
        ran: Ran = self.ctl("audit", "--json", *words)
        self.assertEqual(ran.status, 0, ran.err)
        return [json.loads(line) for line in ran.out.splitlines()]

    @proves("svcctl ban, unban")
    def test_a_ban_is_lifted_once_and_a_second_unban_fails(self) -> None:
        ran = self.ctl("ban", "alpha", "--for", "7d", "--reason", "cheats", "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual((ran.data["username"], ran.data["action"]), ("Alpha", "ban"))
        self.assertEqual(ran.data["sanction"]["reason"], "cheats")
        self.assertIsNotNone(ran.data["sanction"]["until"])
        self.assertEqual(self.ctl("unban", "Alpha").out, "Alpha may log in again\n")
        again = self.ctl("unban", "Alpha")
        self.assertEqual((again.status, again.line), (1, "svcctl: Alpha is not banned"))

    @proves("every act of staff and every refused try is in the audit log")
    def test_commands_that_svcctl_refuses_are_in_the_audit_log(self) -> None:
        for words, action, target, why in (
            (("account", "new-key", "Nobody"), "new key", "Nobody", "no account is called"),
            (("account", "dashboard-key", "Nobody"), "dashboard key", "Nobody", "no account"),
            (("account", "second-factor", "Nobody"), "second factor", "Nobody", "no account"),
            (("gameserver-key", "add", "short"), "add game-server key", "", "16 to 256"),
            (("gameserver-key", "revoke", "unknown"), "revoke game-server key", "", "registered"),
            (("invite", "revoke", "AAAA-BBBB"), "revoke invite", "AAAA-...", "no such code"),
        ):
            ran = self.ctl(*words, "--reason", "because")
            self.assertEqual((ran.status, why in ran.line), (1, True), ran.line)
            newest = self.rows()[0]
            self.assertEqual((newest["action"], newest["target"]), (action, target))
            self.assertEqual(newest["reason"], "because")
            self.assertIn(why, str(newest["refused"]))

    @proves("every act of staff and every refused try is in the audit log")
    def test_an_invalid_order_is_audited_as_refused(self) -> None:
        """The audit row is the same as the row that the dashboard's route writes."""
        for words, route, why in (
            (("ban", "Alpha", "--for", "soon"), "DashboardBan", "is not a duration"),
            (("mute", "Alpha", "--note", "x" * 1_025), "DashboardMute", "0 to 1024"),
            (("announce", "Soup", "--for", "soon"), "DashboardAnnouncement", "is not a duration"),
        ):
            ran = self.ctl(*words)
            self.assertEqual((ran.status, why in ran.line), (1, True), ran.line)
            newest = self.rows()[0]
            self.assertEqual(newest["action"], f"POST /svc/api/{route}")
            self.assertTrue(str(newest["actor"]).startswith("svcctl"))
            self.assertIn(why, str(newest["refused"]))

    @proves("a ban by addresses", "a mute by addresses")
    def test_a_ban_or_mute_with_addresses_includes_the_networks(self) -> None:
        path = str(self.folder / "svc.db")
        with closing(sqlite3.connect(path)) as tx, tx:
            [(who,)] = tx.execute("SELECT id FROM accounts WHERE username = 'Alpha'")
            row = (who, "203.0.113.7", int(time.time()))
            tx.execute("INSERT INTO account_networks VALUES (?, ?, ?)", row)
        ran = self.ctl("ban", "Alpha", "--addresses", "--json")
        self.assertEqual(ran.data["sanction"]["networks"], ["203.0.113.7"])
        ran = self.ctl("ban", "Alpha", "--addresses")
        self.assertEqual(ran.out, "Alpha is banned until you lift it, with 203.0.113.7\n")
        self.ctl("unban", "Alpha")
        with closing(sqlite3.connect(path)) as tx:
            self.assertEqual(list(tx.execute("SELECT * FROM banned_networks")), [])
        ran = self.ctl("mute", "Alpha", "--addresses", "--json")
        self.assertEqual(ran.data["sanction"]["networks"], ["203.0.113.7"])
        with closing(sqlite3.connect(path)) as tx:
            self.assertEqual(len(list(tx.execute("SELECT * FROM muted_networks"))), 1)

    @proves("svcctl mute, unmute, kick")
    def test_mute_unmute_and_kick_report_success(self) -> None:
        self.assertIn("until you lift it", self.ctl("mute", "Alpha").out)
        self.assertEqual(self.ctl("unmute", "Alpha").status, 0)
        self.assertEqual(self.ctl("kick", "Alpha", "--json").data["action"], "kick")

    @proves("svcctl audit")
    def test_each_act_and_each_refused_try_is_a_row(self) -> None:
        self.ctl("ban", "Alpha", "--reason", "cheats")
        self.assertEqual(self.ctl("ban", "Olga").status, 1)
        self.assertEqual(self.ctl("kick", "Nobody").status, 1)
        kick, owner, ban = self.rows()[:3]
        names = ["id", "at", "actor", "action", "target", "targetKind", "reason"]
        self.assertEqual(list(ban), [*names, "before", "after", "refused"])
        self.assertEqual(
            [ban[key] for key in ("action", "target", "refused")], ["ban", "Alpha", None]
        )
        self.assertTrue(str(ban["actor"]).startswith("svcctl"))
        self.assertEqual((owner["target"], kick["target"]), ("Olga", "Nobody"))
        self.assertTrue(owner["refused"] and kick["refused"])
        self.assertEqual(self.rows("--target", "ALPHA", "--since", "1h")[0], ban)
        self.assertEqual(self.rows("--actor", "nobody"), [])
        self.assertIn("refused: Olga is an owner", self.ctl("audit").out)

    @proves("svcctl account promote, demote, list")
    def test_the_last_owner_cannot_be_demoted(self) -> None:
        ran = self.ctl("account", "demote", "Olga")
        self.assertEqual(ran.status, 1)
        self.assertIn("the last owner", ran.line)
        self.assertEqual(self.accounts()["Olga"], True)
        ran = self.ctl("account", "promote", "Alpha", "--role", "moderator", "--json")
        self.assertEqual((ran.data["role"], ran.data["admin"]), ("moderator", False))

    @proves("svcctl audit")
    def test_audit_prints_more_than_one_page_and_older_rows(self) -> None:
        now = time.time()
        with database_of(self.folder) as tx:
            for number in range(1_100):
                at = now - 3_600 * (1_099.5 - number)
                add_row(tx, AuditEntry("Olga", "kick", f"P_{number}"), at)
        mine = ("--actor", "olga")
        self.assertEqual(len(self.rows(*mine)), 500)
        rows = self.rows(*mine, "--count", "5000")
        self.assertEqual([row["target"] for row in rows], [f"P_{at}" for at in range(1099, -1, -1)])
        old = self.rows(*mine, "--until", "40d", "--since", "41d", "--count", "600")
        self.assertEqual([old[0]["target"], old[-1]["target"]], ["P_139", "P_116"])
        self.assertIn("the newest 2.", self.ctl("audit", *mine, "--count", "2").out)

    @proves("svcctl ban, unban")
    def test_a_ban_needs_no_metagame_that_runs(self) -> None:
        self.stop_the_metagame()
        ran = self.ctl("ban", "alpha", "--for", "7d", "--reason", "cheats", "--json")
        self.assertEqual((ran.status, ran.err, ran.data["username"]), (0, "", "Alpha"))
        self.assertEqual(ran.data["sanction"]["reason"], "cheats")
        self.assertEqual(self.ctl("ban", "Alpha").out, "Alpha is banned until you lift it\n")
        self.assertIn("like 12h or 7d", self.ctl("ban", "Alpha", "--for", "soon").line)
        self.assertIn("no account is called", self.ctl("unban", "Nobody").line)
        self.assertEqual(self.ctl("unban", "Alpha").out, "Alpha may log in again\n")
        rows = [(row["action"], row["target"], row["refused"] is None) for row in self.rows()[:5]]
        bans = [("ban", "Alpha", done) for done in (False, True, True)]
        self.assertEqual(rows, [("unban", "Alpha", True), ("unban", "Nobody", False), *bans])

    @proves("svcctl mute, unmute, kick", "svcctl announce")
    def test_commands_without_a_metagame_name_svcctl_up(self) -> None:
        self.stop_the_metagame()
        for words in (
            ("mute", "Alpha"),
            ("unmute", "Alpha"),
            ("kick", "Alpha"),
            ("announce", "Hunt night"),
            ("account", "rename", "Alpha", "Beta"),
            ("gameserver", "stop", "city"),
            ("registration", "OPEN"),
            ("guild", "disband", "Lanterns"),
            ("drain", "on"),
        ):
            ran = self.ctl(*words)
            self.assertEqual((ran.status, ran.out), (1, ""))
            self.assertRegex(ran.line, "does not answer on .* svcctl up starts the host$")

    def test_an_invalid_duration_is_a_one_line_error(self) -> None:
        for words in (
            ("ban", "Alpha", "--for", "soon"),
            ("audit", "--since", "ever"),
            ("audit", "--until", "7"),
        ):
            ran = self.ctl(*words)
            self.assertEqual(ran.status, 1)
            self.assertIn("like 12h or 7d", ran.line)

    @proves("svcctl announce")
    def test_announce_sets_and_clears_an_announcement_with_audit(self) -> None:
        ran = self.ctl("announce", "New version", "--restart-in", "10m", "--json")
        self.assertEqual(ran.data["announcement"]["text"], "New version")
        self.assertIsNotNone(ran.data["announcement"]["restartAt"])
        self.assertEqual(self.ctl("announce", "--clear").out, "nothing is announced\n")
        self.assertEqual([row["action"] for row in self.rows()[:2]], ["announce end", "announce"])
        for words in (("--for", "2h"), ("text", "--clear"), ("x", "--restart-in", "soon")):
            self.assertEqual(self.ctl("announce", *words).status, 1)

    @proves("svcctl announce")
    def test_announce_without_a_text_shows_the_current_announcement(self) -> None:
        self.assertEqual(self.ctl("announce").out, "nothing is announced\n")
        self.assertEqual(self.ctl("announce", "--json").data, {"announcement": None})
        self.ctl("announce", "Hunt night", "--for", "2h")
        result = self.ctl("announce")
        self.assertRegex(
            result.out, r"announced: Hunt night\nby svcctl\S*, until \S+ \S+ \(UTC\)\n"
        )
        self.ctl("announce", "New version", "--restart-in", "10m")
        self.assertRegex(self.ctl("announce").out, r"by svcctl\S*, restart \S+ \S+ \(UTC\)\n")
        shown = self.ctl("announce", "--json").data["announcement"]
        self.assertEqual(shown["text"], "New version")
        self.assertIsNotNone(shown["restartAt"])
        # one row is that of the account; reading adds no row
        self.assertEqual(len(self.rows("--actor", "")), 2 + 1)

    @proves("GET DashboardSanctions")
    def test_bans_and_mutes_are_listed(self) -> None:
        self.assertEqual(self.ctl("sanctions").out, "No bans or mutes.\n")
        self.assertEqual(self.ctl("sanctions", "--json").data, {"sanctions": []})
        for name in ("Beta", "Gamma"):
            self.ctl("account", "create", name)
        self.ctl("mute", "Alpha", "--for", "7d", "--reason", "spam", "--note", "twice")
        self.ctl("ban", "Alpha", "--reason", "cheats")
        self.ctl("ban", "Beta")
        self.ctl("ban", "Gamma")
        self.ctl("unban", "Gamma")
        listed = self.ctl("sanctions", "--json").data["sanctions"]
        self.assertEqual(
            {(entry["username"], entry["kind"], entry["sanction"]["reason"]) for entry in listed},
            {("Alpha", "mute", "spam"), ("Alpha", "ban", "cheats"), ("Beta", "ban", "")},
        )
        out = self.ctl("sanctions").out
        self.assertRegex(out, r"Alpha +mute +\S+ \S+ +\d{4}-\S+ \S+ +svcctl\S* +spam +twice\n")
        self.assertRegex(out, r"Beta +ban +\S+ \S+ +no end +svcctl\S*\n")

    @proves("GET DashboardSanctions")
    def test_more_bans_and_mutes_than_a_piece_are_all_listed(self) -> None:
        self.patch(acts, "MAX_LISTED", 2)
        for name in ("Beta", "Gamma", "Delta"):
            self.ctl("account", "create", name)
            self.ctl("ban", name)
            self.ctl("mute", name)
        sanctions = self.ctl("sanctions", "--json").data["sanctions"]
        self.assertEqual(len(sanctions), 6)
        self.assertEqual(len({(entry["username"], entry["kind"]) for entry in sanctions}), 6)
