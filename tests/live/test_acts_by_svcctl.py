"""The dashboard's actions on players, performed by ``svcctl --json`` on a running metagame.

Real processes are needed because the commands send requests to a running metagame, as in a
terminal.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ctl.command import Ran, svcctl
from tests.live.dashboard_page import WORST, Host, host, weeks
from tests.support.processes import bearer
from tests.support.proves import proves

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Run a metagame with players, saves and guilds."""
    with host(tmp_path_factory.mktemp("acts") / "host") as running:
        port = f"PORT={running.service.port}\n"
        with (running.folder / "metagame.env").open("a") as file:
            file.write(port)
        yield running


def ctl(here: Host, *words: object) -> Any:
    """Run a command and return the JSON object that it prints."""
    ran: Ran = svcctl(*map(str, words), "--json", "--config", here.folder)
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def refused(here: Host, *words: object) -> str:
    ran: Ran = svcctl(*map(str, words), "--config", here.folder)
    assert ran.status == 1, ran.out
    return ran.line


@proves("svcctl account show, rename, saves, rollback")
def test_svcctl_shows_renames_and_rolls_back_an_account(here: Host) -> None:
    assert ctl(here, "account", "show", "ann_1")["where"] == "city"
    rows = ctl(here, "account", "saves", "Ann_1")["Characters"][0]["CharacterVersions"]
    version = rows[2]["Version"]
    reply = ctl(here, "account", "rollback", "Ann_1", version, "--kick")
    assert (reply["RolledBackTo"], reply["kicked"]) == (version, True)
    assert here.service.ask("GET", "/character", None, bearer(here.players[0]))[0] == 401
    loadouts = ctl(here, "account", "rollback", "Ann_1", 2, "--loadouts")
    assert loadouts["RolledBackTo"] == 2
    assert ctl(here, "account", "rename", "Falk", "Falke")["Username"] == "Falke"
    assert refused(here, "account", "rename", "Falke", "Eve").endswith("this name")
    assert refused(here, "account", "show", "Nobody").endswith(
        "There is no account Nobody. See svcctl account list."
    )
    assert "no character with this name" in refused(
        here, "account", "rollback", "Ann_1", 1, "--character=x"
    )


@proves("svcctl account grant, revoke, seed")
def test_svcctl_grants_revokes_and_seeds_an_account(here: Host) -> None:
    ctl(here, "account", "grant", "Eve", "gift", "--hours", 12)
    assert ctl(here, "account", "revoke", "Eve", "gift")["Revoked"]
    assert not ctl(here, "account", "revoke", "Eve", "gift")["Revoked"]
    assert ctl(here, "account", "seed", "Eve", "grandfather")["Mode"] == "grandfather"


@proves("svcctl figures")
def test_svcctl_figures_prints_weeks_and_refuses_a_year(here: Host) -> None:
    weeks(here)
    result = ctl(here, "figures", "--range=weeks")
    assert (result["stepSeconds"], len(result["at"]), len(result["rssMB"])) == (86_400, 55, 55)
    assert result["rssMB"][0] == WORST[-1]
    ran = svcctl("figures", "--range=week", "--config", here.folder)
    assert ran.out.startswith("from (UTC)") and " MB" in ran.out
    assert svcctl("figures", "--range=year", "--config", here.folder).status == 2


@proves("svcctl registration, guild")
def test_svcctl_sets_the_registration_mode_and_disbands_a_guild(here: Host) -> None:
    assert ctl(here, "registration")["RegistrationMode"] == "OPEN"
    assert ctl(here, "registration", "invitecode")["RegistrationMode"] == "INVITECODE"
    assert {entry["name"] for entry in ctl(here, "guild", "list")["guilds"]} == {
        "Lanterns",
        "RedAxes",
    }
    assert ctl(here, "guild", "disband", "RedAxes")["Members"] == 1
    assert [entry["name"] for entry in ctl(here, "guild", "list")["guilds"]] == ["Lanterns"]
    audit = svcctl("audit", "--json", "--config", here.folder).out.splitlines()
    names = [json.loads(line)["action"] for line in audit]
    assert names[:2] == ["disband guild", "registration mode"]
