"""The history of guilds: violations that it must detect, and behaviour that it must accept."""

from twisted.trial.unittest import SynchronousTestCase

from simulation.memberships import LEADER, MEMBER, OFFICER, Memberships, Roll
from simulation.outcomes import ACKED, REFUSED, UNKNOWN, Violations


class MembershipTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.wrong = Violations()
        self.guilds = Memberships(self.wrong)
        self.join("ada", LEADER, 0.0)
        self.join("bo", MEMBER, 10.0)

    def join(self, account: str, rank: str, now: float, state: str = ACKED) -> None:
        writes = self.guilds.joining(account, "guild", rank, now)
        self.guilds.answered(writes, state, now + 1)

    def rules(self) -> list[str]:
        return [violation.rule for violation in self.wrong.listed]

    def roll(self, **ranks: str) -> Roll:
        return Roll("guild", "ada", tuple(ranks.items()))

    def test_memberships_as_acknowledged_break_no_rule(self) -> None:
        roll = self.roll(ada=LEADER, bo=MEMBER)
        self.guilds.shown("ada", roll, 20.0)
        self.guilds.shown("bo", roll, 20.0)
        self.guilds.shown("cleo", None, 20.0)
        self.guilds.settled([roll], 30.0)
        self.assertEqual(self.rules(), [])

    def test_a_new_guild_member_must_be_shown(self) -> None:
        self.guilds.shown("bo", None, 20.0)
        self.guilds.settled([self.roll(ada=LEADER)], 30.0)
        self.assertEqual(self.rules(), ["acknowledged means present"] * 2)

    def test_a_former_guild_member_must_not_be_stored(self) -> None:
        self.guilds.answered(self.guilds.leaving("bo", 20.0), ACKED, 21.0)
        self.guilds.shown("bo", None, 22.0)
        self.assertEqual(self.rules(), [])
        self.guilds.settled([self.roll(ada=LEADER, bo=MEMBER)], 30.0)
        self.assertEqual(self.rules(), ["acknowledged means present"])

    def test_an_unanswered_act_may_hold_or_not(self) -> None:
        self.join("cleo", MEMBER, 20.0, UNKNOWN)
        self.guilds.settled([self.roll(ada=LEADER, bo=MEMBER)], 30.0)
        self.guilds.settled([self.roll(ada=LEADER, bo=MEMBER, cleo=MEMBER)], 30.0)
        self.assertEqual(self.rules(), [])

    def test_a_refused_member_must_not_be_stored(self) -> None:
        self.join("cleo", MEMBER, 20.0, REFUSED)
        self.guilds.settled([self.roll(ada=LEADER, bo=MEMBER, cleo=MEMBER)], 30.0)
        self.assertIn("nothing from nowhere", self.rules())

    def test_two_leaders_or_two_guilds_of_a_player_are_violations(self) -> None:
        self.guilds.shown("ada", self.roll(ada=LEADER, bo=LEADER), 20.0)
        self.guilds.shown("dag", Roll("guild", "ada", (("ada", LEADER),)), 20.0)
        self.assertEqual(
            self.rules(), ["one leader", "acknowledged means present", "one guild each"]
        )

    def test_a_given_rank_holds(self) -> None:
        writes = self.guilds.ranking("guild", "ada", "bo", LEADER, 20.0)
        self.guilds.answered(writes, ACKED, 21.0)
        led = Roll("guild", "bo", (("ada", OFFICER), ("bo", LEADER)))
        self.guilds.shown("bo", led, 22.0)
        self.assertEqual(self.rules(), [])
        self.guilds.shown("bo", self.roll(ada=LEADER, bo=MEMBER), 22.0)
        self.assertEqual(self.rules(), ["acknowledged means present"] * 2)

    def test_a_disbanded_guild_is_gone_until_founded_again(self) -> None:
        self.guilds.disbanding("guild", 20.0)
        self.guilds.shown("bo", None, 20.5)
        self.guilds.disbanded("guild", 21.0)
        self.guilds.settled([], 30.0)
        self.assertEqual(self.rules(), [])
        self.guilds.settled([self.roll(ada=LEADER, bo=MEMBER)], 30.0)
        self.assertEqual(self.rules(), ["what was ended is ended"])
        self.join("ada", LEADER, 40.0)
        self.guilds.settled([self.roll(ada=LEADER)], 50.0)
        self.assertEqual(len(self.rules()), 1)
