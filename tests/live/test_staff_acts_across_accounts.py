"""Concurrent staff actions on accounts, invite codes and the host.

Two metagame processes share one PostgreSQL, as in ``test_acts_across_accounts.py``.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest

from tests.live.two_processes import ROUNDS, Both, Reply, at_once, on_two_metagames, statuses
from tests.support.isolates import isolates

pytestmark = pytest.mark.live

API = "/svc/api"
# each process has its own live state, so a mode set at run time affects only one
on_two_metagames_for_codes = partial(on_two_metagames, REGISTRATION_MODE="INVITECODE")


async def code_uses(both: Both, code: str) -> int | None:
    """Return how often a code can still be used, or None if the host does not list the code.

    Fail unless both processes list the same codes.
    """
    replies = [
        {invite["inviteCode"]: int(invite["usesRemaining"]) for invite in body["InviteCodes"]}
        for body in [await both.good("GET", f"{API}/InviteCodes", at=at) for at in range(2)]
    ]
    assert replies[0] == replies[1]
    return replies[0].get(code)


async def audited(both: Both, action: str) -> list[dict[str, Any]]:
    """Return the audit-log rows of one action, which must be the same at both processes."""
    replies = [await both.good("GET", f"{API}/DashboardAudit", at=at) for at in range(2)]
    assert replies[0] == replies[1]
    return [row for row in replies[0]["rows"] if row["action"] == action]


def registering(both: Both, name: str, at: int, code: str | None = None) -> Awaitable[Reply]:
    return both.call("POST", f"{API}/Register", body={"Username": name, "InviteCode": code}, at=at)


@isolates("accounts/management: register")
@on_two_metagames
async def test_simultaneous_registrations_of_a_name_make_one_account(both: Both) -> None:
    for number in range(ROUNDS):
        names = [f"Same_{number}", f"sAME_{number}"] * 2
        replies = await at_once(*(registering(both, name, at) for at, name in enumerate(names)))
        assert statuses(replies)[0] == 200
        assert sum(status == 200 for status, _ in replies) == 1, replies


@isolates(
    "accounts/invites: create", "accounts/invites: register_code", "accounts/management: register"
)
@on_two_metagames_for_codes
async def test_a_code_never_makes_more_accounts_than_its_uses(both: Both) -> None:
    made = await at_once(
        *(both.call("POST", f"{API}/CreateInvite", body={"uses": 1}, at=at) for at in range(6))
    )
    assert statuses(made) == [200] * 6
    codes = {body["code"] for _, body in made}
    assert len(codes) == 6
    for number, code in enumerate(sorted(codes)[:ROUNDS]):
        again = {"NewInviteCode": code, "Uses": 2}
        put, *tried = await at_once(
            both.call("POST", f"{API}/RegisterInviteCode", body=again),
            *(registering(both, f"new_{number}_{at}", at, code) for at in range(5)),
        )
        assert put[0] == 200
        good = sum(status == 200 for status, _ in tried)
        assert 2 <= good + (await code_uses(both, code) or 0) <= 3, (put, tried)


@isolates("accounts/invites: create_many")
@on_two_metagames_for_codes
async def test_codes_made_at_once_are_all_different_and_work(both: Both) -> None:
    body = {"Count": 20, "Note": "fair"}
    made = await at_once(
        *(both.call("POST", f"{API}/DashboardInvites", body=body, at=at) for at in range(4))
    )
    assert statuses(made) == [200] * 4
    codes = [code for _, reply in made for code in reply["codes"]]
    assert len(set(codes)) == 80
    assert (await registering(both, "first_guest", 1, codes[-1]))[0] == 200
    assert await code_uses(both, codes[-1]) == 0


@isolates("accounts/invites: revoke", "accounts/management: register")
@on_two_metagames_for_codes
async def test_a_revoked_code_makes_no_account_any_more(both: Both) -> None:
    for number in range(ROUNDS):
        code = (await both.good("POST", f"{API}/CreateInvite", body={"uses": 4}))["code"]
        revoked, *tried = await at_once(
            both.call("DELETE", f"{API}/InviteCode/{code}"),
            *(registering(both, f"new_{number}_{at}", at, code) for at in range(4)),
        )
        statuses([revoked, *tried])
        assert await code_uses(both, code) is None
        assert (await registering(both, f"late_{number}", 1, code))[0] != 200


@isolates("accounts/management: rename")
@on_two_metagames
async def test_two_accounts_never_get_one_name(both: Both) -> None:
    for number in range(ROUNDS):
        pair = await both.players(2)
        renames = [{"UserId": player["id"], "NewUsername": f"Wanted_{number}"} for player in pair]
        replies = await at_once(
            *(
                both.call("POST", f"{API}/RenameUser", body=request, at=at)
                for at, request in enumerate(renames)
            ),
            registering(both, f"wANTED_{number}", 1),
        )
        assert sum(status == 200 for status, _ in replies) == 1, replies
        statuses(replies)


@isolates(
    "accounts/management: set_mode",
    "accounts/management: player_token",
    "accounts/audit: leave",
    "owner/moderation: do",
)
@on_two_metagames
async def test_every_act_of_staff_and_every_refused_try_leaves_its_row(both: Both) -> None:
    helper, *players = await both.players(4)
    body = {"Account": helper["name"], "Role": "helper"}
    await both.good("POST", f"{API}/DashboardRole", body=body)
    key = {"x-svc-user-api-key": helper["key"]}
    acts: dict[str, tuple[str, dict[str, Any]]] = {
        "registration": ("RegistrationStatus", {"RegistrationStatus": "OPEN"}),
        "token": ("GenerateJWTForUserId", {"UserId": players[0]["id"]}),
        "kick": ("DashboardKick", {"Account": players[1]["name"]}),
        "mute": ("DashboardMute", {"Account": players[1]["name"], "For": "1h"}),
    }
    before = len((await both.good("GET", f"{API}/DashboardAudit"))["rows"])
    done = await at_once(
        *(
            both.call("POST", f"{API}/{path}", body=sent, at=at)
            for path, sent in acts.values()
            for at in range(2)
        )
    )
    assert statuses(done) == [200] * 8
    tried = await at_once(
        *(
            both.services[at % 2].ask("POST", f"{API}/CreateInvite", {"uses": 1}, key)
            for at in range(4)
        )
    )
    assert statuses(tried) == [403] * 4
    shown = [(await both.good("GET", f"{API}/DashboardAudit", at=at))["rows"] for at in range(2)]
    assert shown[0] == shown[1]
    assert len(shown[0]) == before + 12
    assert sum(row["refused"] is not None for row in shown[0]) == 4


@isolates("owner/moderation: do")
@on_two_metagames
async def test_two_owners_cannot_demote_each_other(both: Both) -> None:
    for number in range(ROUNDS):
        second = await both.player()
        role = {"Account": second["name"], "Role": "owner"}
        await both.good("POST", f"{API}/DashboardRole", body=role)
        theirs = {"x-svc-user-api-key": second["key"]}
        replies = await at_once(
            both.services[0].ask(
                "POST", f"{API}/DashboardRole", {**role, "Role": "player"}, both.owner
            ),
            both.services[1].ask(
                "POST", f"{API}/DashboardRole", {"Account": "Owner", "Role": "player"}, theirs
            ),
        )
        good = [at for at, (status, _) in enumerate(replies) if status == 200]
        assert len(good) == 1, (number, replies)
        if good == [1]:  # the first owner has lost the role; restore it
            owner = {"Account": "Owner", "Role": "owner"}
            ask = both.services[0].ask("POST", f"{API}/DashboardRole", owner, theirs)
            assert (await ask)[0] == 200
            await both.good("POST", f"{API}/DashboardRole", body={**role, "Role": "player"})


@isolates("owner/announcements: make")
@on_two_metagames
async def test_simultaneous_announcements_both_succeed_and_are_audited(both: Both) -> None:
    for number in range(ROUNDS):
        replies = await at_once(
            *(
                both.call(
                    "POST",
                    f"{API}/DashboardAnnouncement",
                    body={"Text": f"{number} of {at}", "For": "1h"},
                    at=at,
                )
                for at in range(2)
            )
        )
        assert statuses(replies) == [200, 200]
    assert len(await audited(both, "announce")) == 2 * ROUNDS


@isolates("owner/maintenance: record")
@on_two_metagames
async def test_simultaneous_maintenance_switches_are_both_audited(both: Both) -> None:
    for _ in range(ROUNDS):
        replies = await at_once(
            *(both.call("POST", f"{API}/DashboardDrain", body={"On": True}, at=at) for at in (0, 1))
        )
        assert statuses(replies) == [200, 200]
    assert len(await audited(both, "drain on")) == 2 * ROUNDS


@isolates("owner/settings: change")
@on_two_metagames
async def test_simultaneous_changes_of_a_setting_are_both_audited(both: Both) -> None:
    sent = {"Name": "GUILD_MAX_MEMBERS"}
    for number in range(ROUNDS):
        replies = await at_once(
            *(
                both.call(
                    "POST",
                    f"{API}/DashboardSetting",
                    body={**sent, "Value": str(2 * number + at + 1)},
                    at=at,
                )
                for at in range(2)
            )
        )
        assert statuses(replies) == [200, 200]
    assert len(await audited(both, "setting")) == 2 * ROUNDS


@isolates("accounts/audit: with_file")
@on_two_metagames
async def test_the_second_of_two_simultaneous_schedule_changes_is_refused(both: Both) -> None:
    """Both metagames have the same folder, and both requests come from an outdated page."""
    schedule = (await both.good("GET", f"{API}/DashboardBackups"))["schedule"]
    for number in range(4 * ROUNDS):
        replies = await at_once(
            *(
                both.call(
                    "POST",
                    f"{API}/DashboardBackupSchedule",
                    body={
                        "At": f"{at + 1:02}:{number:02}",
                        **{name.capitalize(): schedule[name] for name in ("days", "weeks")},
                        "Months": schedule["months"],
                        "Mark": schedule["mark"],
                    },
                    at=at,
                )
                for at in range(2)
            )
        )
        assert statuses(replies) == [200, 409], replies
        [schedule] = [reply["schedule"] for status, reply in replies if status == 200]
        [refused] = [reply["error"] for status, reply in replies if status == 409]
        assert refused == "changed"
        current = await both.good("GET", f"{API}/DashboardBackups", at=number % 2)
        assert current["schedule"] == schedule


@isolates("accounts/audit: with_file")
@on_two_metagames
async def test_the_second_of_two_simultaneous_alert_changes_is_refused(both: Both) -> None:
    channel = {"Name": "friends", "Form": "json", "Private": True, "New": False}
    url = {"Url": "http://127.0.0.1:9/"}
    await both.good("POST", f"{API}/DashboardAlertChannel", body={**channel, **url, "New": True})
    for _ in range(4 * ROUNDS):
        shown = await both.good("GET", f"{API}/DashboardAlertChannel/friends")
        replies = await at_once(
            *(
                both.call(
                    "POST",
                    f"{API}/DashboardAlertChannel",
                    body={**channel, "Mark": shown["mark"], "About": about},
                    at=at,
                )
                for at, about in enumerate(("down", "disk"))
            )
        )
        assert statuses(replies) == [200, 409], replies
