"""The history of holdings: violations that it must detect, and behaviour that it must accept."""

from twisted.trial.unittest import SynchronousTestCase

from simulation.history import History
from simulation.holdings import ItemChange, LinkRow
from simulation.outcomes import ACKED, REFUSED, UNKNOWN, outcome


class HoldingsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.history = History()

    def rules(self) -> list[str]:
        rules = [violation.rule for violation in self.history.wrong.listed]
        self.history.wrong.listed.clear()
        return rules

    def test_a_5xx_reply_counts_as_no_reply(self) -> None:
        self.assertEqual(
            [outcome(status) for status in (200, 204, 409, 429, 500, 503)],
            [ACKED, ACKED, REFUSED, REFUSED, UNKNOWN, UNKNOWN],
        )

    def test_an_item_and_its_price_change_together(self) -> None:
        things = self.history.things
        things.sent("c", "sword", ItemChange(1, "new", "made"))
        things.sent("c", "sword", ItemChange(2, "better", "paid"))
        things.check_items("c", {}, {})
        things.check_items("c", {"sword": (1, "new")}, {"made": 1})
        things.check_items("c", {"sword": (2, "better")}, {"made": 1, "paid": 1})
        self.assertEqual(self.rules(), [])
        things.check_items("c", {}, {"made": 1, "paid": 1})
        things.check_items("c", {"sword": (2, "mixture")}, {"made": 1, "paid": 1})
        self.assertEqual(self.rules(), ["acknowledged means present", "whole or not at all"])

    def test_a_price_alone_or_an_item_alone_is_wrong(self) -> None:
        things = self.history.things
        things.sent("c", "sword", ItemChange(1, "new", "made"))
        things.sent("c", "sword", ItemChange(2, "better", "paid"))
        things.check_items("c", {"sword": (2, "better")}, {"made": 1})
        self.assertEqual(self.rules(), ["whole or not at all"])
        things.sent("d", "bow", ItemChange(1, "new", "made"))
        things.sent("d", "bow", ItemChange(2, "better", "paid"))
        things.check_items("d", {"bow": (1, "new")}, {"made": 1, "paid": 1})
        self.assertEqual(self.rules(), ["versions only rise"])

    def test_an_item_that_was_given_away_stays_away(self) -> None:
        things = self.history.things
        things.sent("c", "sword", ItemChange(1, "new", "made", ACKED))
        gone = things.sent("c", "sword", ItemChange(None, marker="gone"))
        self.assertFalse(things.settled("c", "sword"))
        gone.state = ACKED
        self.assertTrue(things.settled("c", "sword"))
        things.check_items("c", {}, {"made": 1, "gone": 1})
        self.assertEqual(self.rules(), [])
        things.check_items("c", {"sword": (1, "new")}, {"made": 1, "gone": 1})
        self.assertEqual(self.rules(), ["what was ended is ended"])

    def test_a_purchase_is_held_once(self) -> None:
        store = self.history.purchases
        store.bought("a", "c", ["helm"], ["pass"], ACKED)
        store.bought("a", "c", ["helm"], [], ACKED)
        store.bought("a", "c", ["dye"], [], UNKNOWN)
        store.bought("a", "c", ["axe"], [], REFUSED)
        store.check_purchases("c", {"helm": 1})
        store.check_purchases("c", {"helm": 1, "dye": 1})
        store.entitled({("a", "pass")})
        self.assertEqual(self.rules(), [])
        store.check_purchases("c", {"helm": 2, "axe": 1})
        store.check_purchases("c", {})
        store.entitled(set())
        self.assertEqual(self.rules(), ["a purchase once"] * 2 + ["acknowledged means present"] * 2)

    def test_a_read_gives_the_last_value_or_a_concurrent_value(self) -> None:
        chosen = self.history.chosen
        first = chosen.sent("slot", "one", 1.0)
        chosen.check_value("slot", "the game's own", 1.5)
        chosen.check_value("slot", "one", 1.5)
        chosen.answered(first, ACKED, 2.0)
        late, second = chosen.sent("slot", "lost", 3.0), chosen.sent("slot", "two", 3.0)
        chosen.answered(second, ACKED, 4.0)
        for value in ("two", "lost"):  # the write without a reply may have been applied late
            chosen.check_value("slot", value, 5.0)
        self.assertEqual(self.rules(), [])
        for value in ("one", None, "nobody's"):
            chosen.check_value("slot", value, 5.0)
        chosen.answered(late, REFUSED, 6.0)
        chosen.check_value("slot", "lost", 7.0)
        self.assertEqual(self.rules(), ["acknowledged means present"] * 4)

    def test_each_unlocking_counts_once(self) -> None:
        slots = self.history.slots
        slots.unlocked("c", ACKED)
        slots.unlocked("c", UNKNOWN)
        slots.unlocked("c", REFUSED)
        slots.check_slots("c", 2)
        slots.check_slots("c", 3)
        self.assertEqual(self.rules(), [])
        slots.check_slots("c", 1)
        slots.check_slots("c", 4)
        self.assertEqual(self.rules(), ["counts agree"] * 2)

    def test_a_link_has_two_sides_or_none(self) -> None:
        links = self.history.links
        links.accepting("l", "a", "b", 0.0).made = ACKED
        both = [LinkRow("a", "b", 1, "l"), LinkRow("b", "a", 3, "l")]
        links.settled(both, 10.0)
        self.assertEqual(self.rules(), [])
        links.settled(both[:1], 10.0)
        links.settled([], 10.0)
        links.settled([], 1e6)  # the link's time is over
        links.settled([*both, LinkRow("a", "c", 1, "m")], 10.0)
        self.assertEqual(
            self.rules(),
            [
                "whole or not at all",
                "acknowledged means present",
                "a slot for each",
                "nothing from nowhere",
                "whole or not at all",
            ],
        )
        [ended] = links.ending("b", "a")
        links.settled(both, 10.0)
        links.settled([], 10.0)
        self.assertEqual(self.rules(), [])
        ended.ended = ACKED
        links.settled(both, 10.0)
        self.assertEqual(self.rules(), ["what was ended is ended"])

    def test_a_joined_party_is_shown_unless_live_state_was_lost(self) -> None:
        parties = self.history.parties
        parties.joined("a", "p", "p", 100.0)
        parties.shake(100.0)
        parties.joined("a", "p", "q", 130.0)
        self.assertEqual(self.rules(), [])
        parties.joined("a", "p", "q", 200.0)
        self.assertEqual(self.rules(), ["acknowledged means present"])
