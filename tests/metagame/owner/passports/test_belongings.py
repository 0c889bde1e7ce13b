"""Items, currencies and loadouts in a passport, which a host imports once or leaves out."""

import base64
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.passports import rules, wire
from svcserver.metagame.owner.passports.acts import take_in, trust
from svcserver.metagame.owner.passports.rules import Taken, Terms
from tests.ctl.command import new_host, nowhere, svcctl
from tests.support.belongings import Owner
from tests.support.effort import tried
from tests.support.game import Game
from tests.support.game import settings as game_settings

SWORD = {"catalogId": "sword", "instanceId": "i-1", "itemData": '{"power":3}', "updateVersion": 2}
ALL = frozenset({"progress", "characters", "inventory", "currency", "loadouts"})


class Trace:
    """A fake audit row that stores the notes."""

    target = ""
    after: Any = None
    before: Any = None


class BelongingsTests(SynchronousTestCase):
    """A passport moves Ann's belongings to Bob's account on another host."""

    def setUp(self) -> None:
        self.ann = Owner.of(Game(self), "Ann_1")
        save = {"characterId": self.ann.character, "data": '{"level":7}', "updateVersion": 1}
        self.ann.game.browse("POST", "/character", json=save, token=self.ann.player.token)
        self.ann.add("potion", 5)
        self.ann.add("CURRENCY_PLATINUM", 70)
        self.assertEqual(self.ann.transact(addInstancedItems=[SWORD]).status, 200)
        path = f"/loadout/{self.ann.player.id}/{self.ann.character}/0"
        slot = {"data": '{"slot_index":0,"weapon":"i-1"}'}
        game = self.ann.game
        page = game.browse("POST", path, json=slot, token=self.ann.player.token)
        self.assertEqual(page.status, 200, page.body)
        self.bob = Owner.of(Game(self), "Bob_1")

    def again(self) -> None:
        """Reset both hosts for the next example."""
        for owner in (self.ann, self.bob):
            owner.game.ledger.free()
        self.setUp()

    def passport(self, **changes: Any) -> rules.Passport:
        page = self.ann.game.browse("GET", "/launcher/passport", key=self.ann.player.key)
        if not changes:
            return wire.unseal(page.body)
        body = json.parse_deep(base64.b64decode(page.json["body"]))
        assert isinstance(body, dict)
        return wire.read_body(page.json["key"], {**body, **changes})

    def take(self, passport: rules.Passport, **environ: str) -> Taken:
        terms = Terms.for_imports(game_settings(**environ))
        parts = self.bob.game.parts

        def work(tx: Any) -> Taken:
            trust(passport.signer, "Olga", parts.wall_clock)(tx, Trace())  # type: ignore[arg-type]
            return take_in(passport, "Bob_1", {}, terms, parts.wall_clock)(tx, Trace())  # type: ignore[arg-type]

        return self.successResultOf(parts.ledger.write(work))

    def test_a_passport_brings_items_currency_and_loadout(self) -> None:
        self.bob.add("potion", 2)
        taken = self.take(self.passport())
        self.assertEqual((taken.items, taken.currencies, taken.loadouts), (2, 1, 1))
        self.assertEqual(self.bob.stacks(), {"potion": 5, "CURRENCY_PLATINUM": 70})
        self.assertEqual(self.bob.instances(), {"i-1": SWORD})
        path = f"/loadout/{self.bob.player.id}/{self.bob.character}/all"
        page = self.bob.game.browse("GET", path, token=self.bob.player.token)
        self.assertIn(b'"weapon":"i-1"', page.body)
        self.assertEqual(taken.left_out, [])

    def test_a_passport_never_reduces_existing_belongings(self) -> None:
        self.bob.add("potion", 9)
        own = {**SWORD, "itemData": '{"power":9}', "updateVersion": 8}
        self.bob.transact(addInstancedItems=[own])
        taken = self.take(self.passport())
        self.assertEqual(self.bob.stacks()["potion"], 9)
        self.assertEqual(self.bob.instances(), {"i-1": own})
        self.assertEqual((taken.items, taken.currencies), (0, 1))

    def test_a_second_import_is_refused(self) -> None:
        self.failureResultOf(self._twice(), Conflict)
        self.assertEqual(self.bob.stacks(), {})

    def _twice(self) -> Any:
        parts = self.bob.game.parts
        passport, terms = self.passport(), Terms.for_imports(game_settings())

        def work(tx: Any) -> None:
            trust(passport.signer, "Olga", parts.wall_clock)(tx, Trace())  # type: ignore[arg-type]
            for _ in range(2):
                take_in(passport, "Bob_1", {}, terms, parts.wall_clock)(tx, Trace())  # type: ignore[arg-type]

        return parts.ledger.write(work)

    def test_parts_that_this_host_refuses_are_left_out_and_named(self) -> None:
        taken = self.take(self.passport(notes=7), PASSPORT_TAKES="characters")
        self.assertEqual((taken.characters, taken.items, taken.loadouts), (1, 0, 0))
        self.assertEqual((self.bob.stacks(), self.bob.instances()), ({}, {}))
        reasons = " ".join(taken.left_out)
        for word in ("1 currencies", "2 items", "the loadout", "the main currency"):
            self.assertIn(word, reasons)
        self.assertIn("which this host does not import", reasons)

    def test_without_passport_characters_items_go_to_existing_characters(self) -> None:
        taken = self.take(self.passport(), PASSPORT_TAKES="inventory")
        self.assertEqual((taken.characters, taken.items), (0, 2))
        self.assertEqual(self.bob.stacks(), {"potion": 5})

    def test_the_main_currency_is_raised_and_never_lowered(self) -> None:
        for notes, expected in ((500, 500), (-5, 0), ("x", 0), (2**60, 0)):
            self.again()
            self.take(self.passport(notes=notes))
            account = self.successResultOf(
                self.bob.game.parts.ledger.read_snapshot(
                    lambda tx: SqlAccounts(tx).find(self.bob.player.id)
                )
            )
            assert account is not None
            self.assertEqual(account.notes, expected)

    def test_a_full_character_keeps_its_items_and_gets_none(self) -> None:
        taken = self.take(self.passport(), INVENTORY_MAX_ITEMS="2", LOADOUT_MAX_BYTES="4")
        self.assertEqual((self.bob.stacks(), taken.items), ({}, 0))
        reasons = " ".join(taken.left_out)
        self.assertIn("inventory is full", reasons)
        self.assertIn("slot 0 of the loadout of", reasons)

    @tried(40)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["stackedItems", "catalogId", "quantity", "elements", "0"]),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=8,
        )
    )
    def test_any_signed_content_is_imported_or_left_out(self, reasons: Any) -> None:
        carried = [{"name": "A", "data": "{}", "inventory": reasons, "loadout": reasons}]
        try:
            passport = self.passport(characters=carried)
        except Malformed:
            return
        self.again()
        self.take(passport)

    def test_the_import_command_lists_omitted_entries(self) -> None:
        folder = new_host(nowhere(self))
        file = Path(folder, "ann.json")
        page = self.ann.game.browse("GET", "/launcher/passport", key=self.ann.player.key)
        file.write_bytes(page.body)
        config = ("--config", folder)
        svcctl("account", "create", "Ann_2", *config)
        svcctl("passport", "trust", page.json["key"], *config)
        env = Path(folder, "metagame.env")
        env.write_text(env.read_text() + "PASSPORT_TAKES=characters,inventory\n")
        ran = svcctl("passport", "import", file, "Ann_2", "--json", *config)
        self.assertEqual((ran.data["items"], ran.data["currencies"]), (2, 0))
        self.assertEqual(len(ran.data["left_out"]), 2)
        env.write_text(env.read_text() + "PASSPORT_TAKES=everything\n")
        self.assertIn("may list only", svcctl("passport", "import", file, "X", *config).line)


class BoundTests(SynchronousTestCase):
    def test_more_than_a_passport_holds_is_refused(self) -> None:
        host = Game(self).parts.tokens.keys.private
        assert host is not None
        key = rules.signing_key(host)
        with self.assertRaises(Conflict):
            wire.seal({"x": "y" * rules.MAX_BODY}, key)
