"""A client that a stock generator makes from the OpenAPI document: it logs in and plays."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.ctl.command import new_host, svcctl
from tests.ctl.hosts import change
from tests.support.pages import blocks
from tests.support.processes import Service, free_port, metagame

PAGE = Path(__file__).parents[2] / "docs" / "contributors" / "first-call.md"
GENERATOR, PACKAGE = ".venv/bin/openapi-python-client ", "game_client"  # as the page names them
Come = Callable[[str], tuple[Any, str]]


def pasted(word: str) -> str:
    """Return the last code block in the language ``word`` on the first-call page."""
    return [block.text for block in blocks(PAGE) if block.word == word][-1]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Import the generated package; fail if the generator rejected any part."""
    folder = tmp_path_factory.mktemp("client")
    host = new_host(folder / "host")
    change(host, "metagame", "STORE", "free")
    document = folder / "openapi.json"
    document.write_text(svcctl("openapi", "--config", host, "--json").out)
    [line] = [entry for entry in pasted("sh").splitlines() if entry.startswith(GENERATOR)]
    _, *words = shlex.split(line)
    ran = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "WARNING parsing" not in ran.stdout + ran.stderr, ran.stdout + ran.stderr
    sys.path.insert(0, str(folder))
    yield folder / PACKAGE
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    switches = {
        "STORE": "free",
        "MATCHMAKING_MODE": "DEPLOYSERVER",
        # no deploy server listens there, so no game server is started
        "DEPLOYSERVER_URL": f"127.0.0.1:{free_port()}",
    }
    with metagame(tmp_path_factory.mktemp("metagame"), **switches) as running:
        yield running


def response(
    operation: str,
    *words: str,
    client: Any,
    shape: str = "",
    query: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Any:
    """Call an operation of the client; ``fields`` fill the body, which has this ``shape``."""
    tag = operation.partition("_")[0]
    module = import_module(f"{PACKAGE}.api.{tag}.{operation}")
    models = import_module(f"{PACKAGE}.models")
    sent = {"body": getattr(models, shape)(**fields)} if shape else {}
    return module.sync_detailed(*words, client=client, **sent, **(query or {}))


def ask(operation: str, *words: str, client: Any, **sent: Any) -> Any:
    """Return the parsed response to an operation that must succeed."""
    got = response(operation, *words, client=client, **sent)
    assert got.status_code < 300, (operation, got.status_code, got.content)
    return got.parsed


def refused(operation: str, *words: str, client: Any, **sent: Any) -> tuple[int, Any]:
    """Return the status and parsed body of a rejected operation."""
    got = response(operation, *words, client=client, **sent)
    assert 400 <= got.status_code < 500, (operation, got.status_code, got.content)
    return got.status_code.value, got.parsed


@pytest.fixture
def player(client: Path, service: Service) -> Iterator[Come]:
    """Return a registered player's logged-in client and the account id."""
    made, url = import_module(PACKAGE), f"http://127.0.0.1:{service.port}"
    with ExitStack() as opened:
        anybody = opened.enter_context(made.Client(base_url=url))

        def come(name: str) -> tuple[Any, str]:
            request = {"client": anybody, "shape": "RegisterRequest", "username": name}
            key = ask("management_register", **request).uuk
            login = ask("login_log_in", client=anybody, shape="LoginRequest", exchange_code=key)
            own = made.AuthenticatedClient(base_url=url, token=login.access_token)
            return opened.enter_context(own), login.account_id

        yield come


# slow: the first of its file, for which the client is generated
def test_a_generated_client_saves_and_reads_a_character(player: Come) -> None:
    mine, _ = player("Ada")
    [character] = ask("characters_read", client=mine)
    ask(
        "characters_save",
        client=mine,
        shape="CharacterSave",
        update_version=character.update_version + 1,
        data=json.dumps({"level": 2}),
        character_id=character.id,
    )
    [saved] = ask("characters_read", client=mine)
    assert saved.update_version == character.update_version + 1
    assert json.loads(saved.data) == {"level": 2}


def test_the_first_call_pages_python_example_runs(
    client: Path, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    text = pasted("python")
    assert ":61000" in text
    exec(text.replace(":61000", f":{service.port}"), {})  # noqa: S102 - it is our page
    assert capsys.readouterr().out.strip()


def test_a_generated_client_adds_friends_and_sends_heartbeats(player: Come) -> None:
    bob, bobs_id = player("Bob")
    cleo, cleos_id = player("Cleo")
    ask("friends_request", bobs_id, cleos_id, client=bob)
    ask("friends_request", cleos_id, bobs_id, client=cleo)
    [friend] = ask("friends_listed", bobs_id, client=bob)
    assert friend.account_id == cleos_id
    # the client has parsed this as a time
    assert timedelta(0) <= datetime.now(UTC) - friend.created < timedelta(hours=1)
    ask("presence_beat", client=bob, shape="Heartbeat")
    assert ask("inventory_read", bobs_id, ask("characters_read", client=bob)[0].id, client=bob)


def test_two_generated_clients_form_a_party_and_read_an_envelope(player: Come) -> None:
    dora, doras_id = player("Dora")
    eve, eves_id = player("Eve")
    for entry in (dora, eve):
        ask("presence_beat", client=entry, shape="Heartbeat")
    ask("parties_poll", client=dora, shape="PartyPoll")
    ask("parties_invite", client=dora, shape="PartyInviteRequest", recipient_player_id=eves_id)
    [invite] = ask("parties_invites", client=eve).invitations
    assert invite.sending_player_id == doras_id
    ask("parties_accept", invite.party_id, client=eve, shape="PartyPoll")
    party = ask("parties_poll", client=dora, shape="PartyPoll")
    assert {state.player_id for state in party.player_states} == {doras_id, eves_id}
    assert ask("bounties_read", doras_id, client=dora).payload.draft_data.gold_count == 0


def test_a_generated_client_takes_loot_shops_and_requests_a_hunt(player: Come) -> None:
    iris, iris_id = player("Iris")
    [character] = ask("characters_read", client=iris)
    stacks = import_module(f"{PACKAGE}.models").StackRequest
    loot = {
        "shape": "TransactionRequest",
        "character_id": character.id,
        "transaction_id": "t-1",
        "add_stacked_items": [stacks(catalog_id="MAT_ORE", quantity=5)],
    }
    [ore] = ask("inventory_transact", client=iris, **loot).updated_stacked_items
    assert (ore.catalog_id, ore.quantity) == ("MAT_ORE", 5)
    offers = ask("shop_listing", client=iris, query={"required_tags": "webstore"})
    wanted = next(offer for offer in offers if offer.id == "bundle_armour_iron")
    token = ask("shop_token", "platinum", wanted.id, client=iris).purchase_token
    ask("shop_redeem", "platinum", client=iris, query={"token": token})
    held = ask("inventory_read", iris_id, character.id, client=iris).stacked_items
    assert "AR_IRON_HELM" in {offer.catalog_id for offer in held}
    request = {
        "shape": "CandidateRequest",
        "game_args": "",
        "game_mode": "ISLAND",
        "player_hunt_id": "Hunt_A",
    }
    requests = ask("matchmaking_join", client=iris, **request)
    standing = ask("matchmaking_status", client=iris)
    assert standing.candidate_id == requests.candidate_id


def test_a_generated_client_parses_refusals(player: Come) -> None:
    finn, finns_id = player("Finn")
    request = {"client": finn, "shape": "RegisterRequest"}
    status, why = refused("management_register", username="finn", **request)
    assert (status, why.error) == (409, "username_taken"), why
    assert why.message
    status, why = refused("guilds_leave", client=finn)
    assert status == 404, why
    assert why.message
    assert why.to_dict()["payload"] == {}
    status, why = refused(
        "slayerlinks_invite", client=finn, shape="SlayerInviteRequest", account_id=finns_id, slot=1
    )
    assert (status, why.code, why.payload) == (409, "409", None), why
    with import_module(PACKAGE).Client(base_url=finn._base_url) as nobody:
        got = response("slayerlinks_status", client=nobody)
        assert (got.status_code.value, got.parsed.code) == (401, "401"), got.content
        got = response("shop_listing", client=nobody, query={"required_tags": "webstore"})
        assert (got.status_code.value, got.parsed, got.content) == (401, None, b"")


def test_a_refusal_without_a_body_is_no_fault_of_its_client(player: Come) -> None:
    gil, _ = player("Gil")
    [character] = ask("characters_read", client=gil)
    old = {"shape": "CharacterSave", "update_version": character.update_version, "data": "{}"}
    got = refused("characters_save", client=gil, character_id=character.id, **old)
    assert got == (409, None)
    # this operation accepts a key, but no token
    assert refused("passports_hunter", client=gil) == (401, None)
    assert refused("status_voice", client=gil) == (404, None)
