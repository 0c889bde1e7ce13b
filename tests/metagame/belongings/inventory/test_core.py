"""The inventory's rules, compared with a plain model on Hypothesis examples."""

from collections import Counter
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, Refusal
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.inventory.rules import By, Policy, is_newer
from svcserver.metagame.belongings.inventory.store import SqlInventory, inventory_of
from tests.metagame.belongings.inventory import sent as items
from tests.support.effort import tried
from tests.support.ledger import InstantLedger
from tests.support.proves import proves

STACKS = st.lists(
    st.tuples(st.sampled_from("ABC"), st.integers(0, 9)).map(
        lambda pair: {"catalogId": pair[0], "quantity": pair[1]}
    ),
    max_size=3,
)
INSTANCES = st.lists(
    st.tuples(st.sampled_from(["i1", "i2"]), st.integers(0, 4)).map(
        lambda pair: {
            "catalogId": "W",
            "instanceId": pair[0],
            "itemData": "{}",
            "updateVersion": pair[1],
        }
    ),
    max_size=2,
)
DEALS = st.fixed_dictionaries(
    {
        "transactionId": st.sampled_from(["t1", "t2", "t3", "t4", "", "0"]),
        "addStackedItems": STACKS,
        "removeStackedItems": STACKS,
        "addInstancedItems": INSTANCES,
        "removeInstancedItems": INSTANCES,
        "saveInstancedItems": INSTANCES,
    }
)


class Model:
    """The inventory as a client knows it from the replies that it has received."""

    def __init__(self) -> None:
        self.stacks: dict[str, int] = {}
        self.answers: dict[str, bytes] = {}

    def learn(self, sent: dict[str, Any], answer: bytes) -> None:
        for stack in orjson.loads(answer)["updatedStackedItems"]:
            self.stacks[stack["catalogId"]] = stack["quantity"]
        if items.transaction_id(sent["transactionId"]) and any(
            value for value in sent.values() if isinstance(value, list)
        ):
            self.answers[sent["transactionId"]] = answer


class CoreTests(SynchronousTestCase):
    def run_all(self, deals: list[dict[str, Any]], policy: Policy) -> tuple[Model, Any, Any]:
        ledger, model, balance = InstantLedger(), Model(), Counter[str]()
        [first] = ledger.run(lambda tx: SqlCharacters(tx).all_of("UID-a", "Ann", 0.0))
        for sent in deals:
            deal = items.transaction(sent)

            def work(tx: Any, deal: Any = deal) -> bytes:
                inventory = SqlInventory(tx)
                return inventory.transact("UID-a", first.id, deal, By.CLIENT, policy, 1.0).answer

            before = ledger.run(lambda tx: inventory_of(tx, first.id))
            try:
                answer = ledger.run(work)
            except Refusal:
                self.assertEqual(ledger.run(lambda tx: inventory_of(tx, first.id)), before)
                continue
            if sent["transactionId"] in model.answers:
                self.assertEqual(answer, model.answers[sent["transactionId"]])
                self.assertEqual(ledger.run(lambda tx: inventory_of(tx, first.id)), before)
                continue
            model.learn(sent, answer)
            balance.update(deal.added)
            balance.subtract(deal.removed)
        return model, balance, orjson.loads(ledger.run(lambda tx: inventory_of(tx, first.id)))

    @proves("thing: Inventory transaction")
    @tried(60)
    @given(st.lists(DEALS, max_size=8))
    def test_stacks_equal_the_acknowledged_sums_after_any_repeats(self, deals: Any) -> None:
        model, balance, held = self.run_all(deals, Policy(refuse_overspend=True))
        stacks = {stack["catalogId"]: stack["quantity"] for stack in held["stackedItems"]}
        self.assertEqual(stacks, {name: n for name, n in balance.items() if n})
        self.assertEqual(stacks, {name: n for name, n in model.stacks.items() if n})

    @proves("thing: Inventory transaction")
    @tried(40)
    @given(st.lists(DEALS, max_size=8))
    def test_clamped_sums_equal_the_acknowledged_sums(self, deals: Any) -> None:
        model, _, held = self.run_all(deals, Policy())
        stacks = {stack["catalogId"]: stack["quantity"] for stack in held["stackedItems"]}
        self.assertEqual(stacks, {name: n for name, n in model.stacks.items() if n})

    @tried(100)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["catalogId", "quantity", "instanceId", "updateVersion", "x"]),
                    inner,
                )
            ),
        ),
        st.sampled_from(["addStackedItems", "removeInstancedItems", "addInstancedItems"]),
    )
    def test_any_json_is_read_or_refused(self, sent: Any, name: str) -> None:
        try:
            items.transaction({name: sent, "transactionId": sent, "source": sent})
        except Refusal as why:
            self.assertEqual(why.status, 400)
        except (TypeError, ValueError) as why:  # orjson: whole numbers above 64 bits
            self.assertIn("Integer", str(why))

    def test_a_version_that_goes_back_conflicts(self) -> None:
        held = items.instance(
            {"catalogId": "W", "instanceId": "i", "itemData": "", "updateVersion": 2}
        )
        with self.assertRaises(Conflict):
            is_newer(held, held)
