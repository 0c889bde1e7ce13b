"""Each act across accounts against what could break it, in two processes on one PostgreSQL.

docs/contributors/transactions.md lists the acts; ``@isolates`` says which a test proves. What must
hold afterwards is asked of both processes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

import pytest
from attrs import define, frozen
from sqlalchemy import select
from twisted.internet import reactor
from twisted.internet.defer import gatherResults, maybeDeferred
from twisted.internet.task import Clock

from svcserver.db.engine import database_url, make_engine
from svcserver.db.factory import ledger_for
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.belongings.housekeeping import housekeeping
from svcserver.metagame.owner.people.acts import Seen
from svcserver.metagame.owner.people.store import ACCOUNT_SEEN
from svcserver.metagame.play.presence.store import Beat
from tests.live.test_belongings_durability import BUNDLE, ITEM, SIZE
from tests.live.two_processes import (
    ROUNDS,
    Both,
    Player,
    Said,
    at_once,
    on_two_metagames,
    statuses,
)
from tests.support.isolates import isolates

pytestmark = pytest.mark.live

API = "/svc/api"
ALL = "?includePending=true"


def friends_path(me: Player, other: Player | None = None) -> str:
    end = f"/{other['id']}" if other else ""
    return f"/friends/api/public/friends/{me['id']}{end}"


def block_path(me: Player, other: Player) -> str:
    return f"/friends/api/public/blocklist/{me['id']}/{other['id']}"


async def rows_between(both: Both, one: Player, other: Player) -> list[str]:
    """The state of the pair as each sees it, on each process; all four must agree."""
    seen = [
        [entry["status"] for entry in await both.good("GET", f"{friends_path(me)}{ALL}", me, at=at)]
        for me in (one, other)
        for at in range(2)
    ]
    assert seen.count(seen[0]) == 4, seen
    return seen[0]


@isolates("social/friends: request", "social/friends: block")
@on_two_metagames
async def test_nobody_is_asked_by_whom_he_has_blocked(both: Both) -> None:
    for _ in range(ROUNDS):
        ann, bob = await both.players(2)
        said = await at_once(
            both.call("POST", friends_path(ann, bob), ann),
            both.call("POST", block_path(bob, ann), bob, at=1),
        )
        assert statuses(said)[0] == 204
        assert await rows_between(both, ann, bob) == []


@isolates("social/friends: request", "social/friends: unfriend")
@on_two_metagames
async def test_a_friendship_is_there_for_both_or_for_nobody(both: Both) -> None:
    for _ in range(ROUNDS):
        ann, bob = await both.players(2)
        await both.good("POST", friends_path(ann, bob), ann)
        said = await at_once(
            both.call("POST", friends_path(bob, ann), bob),
            both.call("DELETE", friends_path(ann, bob), ann, at=1),
        )
        statuses(said)
        assert await rows_between(both, ann, bob) in ([], ["PENDING"])


@isolates("social/friends: unblock", "social/friends: request")
@on_two_metagames
async def test_a_request_during_an_unblocking_is_kept_or_refused(both: Both) -> None:
    for _ in range(ROUNDS):
        ann, bob = await both.players(2)
        await both.good("POST", block_path(bob, ann), bob)
        asked, lifted = await at_once(
            both.call("POST", friends_path(ann, bob), ann),
            both.call("DELETE", block_path(bob, ann), bob, at=1),
        )
        assert (asked[0] in (204, 403), lifted[0]) == (True, 204)
        kept = ["PENDING"] if asked[0] == 204 else []
        assert await rows_between(both, ann, bob) == kept


# -- guilds ---------------------------------------------------------------------


async def guild_of(both: Both, leader: Player) -> str:
    """A new guild of one."""
    name = leader["name"].replace("player_", "Guild")
    await both.good("POST", "/guild/validate", leader, {"name": name})
    assert (await both.found(leader, name))[0] == 200
    return name


async def invited(both: Both, leader: Player, other: Player) -> str:
    """The id of a new invite."""
    await both.good("PUT", f"/guild/invite/{other['id']}", leader)
    invites = (await both.good("GET", "/guild/invite/player", other))["invites"]
    return str(invites[0]["id"])


async def joined(both: Both, leader: Player, other: Player) -> None:
    invite = await invited(both, leader, other)
    await both.good("POST", f"/guild/invite/accept/{invite}", other)


async def ranks(both: Both, player: Player) -> dict[str, str]:
    """The members of the player's guild, the same on both; empty without one."""
    said = [await both.call("GET", "/guild", player, at=at) for at in range(2)]
    found = [
        {one["phx_account_id"]: str(one["rank"]) for one in (body or {}).get("members", ())}
        for status, body in said
    ]
    assert found[0] == found[1]
    return found[0]


@isolates("social/guilds: found")
@on_two_metagames
async def test_one_name_one_guild(both: Both) -> None:
    for _ in range(ROUNDS):
        leaders = await both.players(4)
        name = leaders[0]["name"].replace("player_", "Guild")
        for at, leader in enumerate(leaders):
            await both.good("POST", "/guild/validate", leader, {"name": name}, at=at)
        said = await at_once(*(both.found(one, name, at) for at, one in enumerate(leaders)))
        assert statuses(said) == [200, 409, 409, 409]


@isolates("social/guilds: invite")
@on_two_metagames
async def test_one_invite_of_a_guild_to_a_player(both: Both) -> None:
    for _ in range(ROUNDS):
        leader, other = await both.players(2)
        await guild_of(both, leader)
        path = f"/guild/invite/{other['id']}"
        said = await at_once(*(both.call("PUT", path, leader, at=at) for at in range(4)))
        assert statuses(said) == [200, 409, 409, 409]
        assert len((await both.good("GET", "/guild/invite/player", other, at=1))["invites"]) == 1


@isolates("social/guilds: accept")
@on_two_metagames
async def test_the_last_places_of_a_guild(both: Both) -> None:
    for _ in range(ROUNDS):
        leader, *others = await both.players(5)
        await guild_of(both, leader)
        ids = [await invited(both, leader, one) for one in others]
        said = await at_once(
            *(
                both.call("POST", f"/guild/invite/accept/{invite}", one, at=at)
                for at, (invite, one) in enumerate(zip(ids, others, strict=True))
            )
        )
        assert statuses(said) == [200, 200, 409, 409]
        assert len(await ranks(both, leader)) == 3


@isolates("social/guilds: accept", "social/guilds: decline")
@on_two_metagames
async def test_an_invite_is_accepted_or_declined(both: Both) -> None:
    for _ in range(ROUNDS):
        leader, other = await both.players(2)
        await guild_of(both, leader)
        invite = await invited(both, leader, other)
        accepted, declined = await at_once(
            both.call("POST", f"/guild/invite/accept/{invite}", other),
            both.call("DELETE", f"/guild/invite/{invite}", other, at=1),
        )
        assert sorted((accepted[0], declined[0])) == [200, 404]
        assert (other["id"] in await ranks(both, leader)) == (accepted[0] == 200)


@isolates("social/guilds: remove", "social/guilds: set_rank")
@on_two_metagames
async def test_a_guild_has_one_leader_who_is_in_it(both: Both) -> None:
    for _ in range(ROUNDS):
        leader, other = await both.players(2)
        await guild_of(both, leader)
        await joined(both, leader, other)
        said = await at_once(
            both.call("PUT", f"/guild/rank/{other['id']}/LEADER", leader),
            both.call("DELETE", "/guild/player", other, at=1),
        )
        statuses(said)
        members = {**await ranks(both, leader), **await ranks(both, other)}
        assert sum(rank.upper() == "LEADER" for rank in members.values()) == 1, (members, said)


@isolates("social/guilds: disband", "social/guilds: disband_named", "social/guilds: accept")
@on_two_metagames
async def test_nobody_is_in_a_guild_that_is_gone(both: Both) -> None:
    for number in range(2 * ROUNDS):
        leader, other = await both.players(2)
        name = await guild_of(both, leader)
        invite = await invited(both, leader, other)
        guild = (await both.good("GET", "/guild", leader))["id"]
        ended = (
            both.call("POST", f"{API}/DisbandGuild", body={"Guild": name}, at=1)
            if number % 2
            else both.call("DELETE", f"/guild/{guild}", leader, at=1)
        )
        said = await at_once(both.call("POST", f"/guild/invite/accept/{invite}", other), ended)
        assert said[1][0] == 200, said
        for one in (leader, other):
            assert await ranks(both, one) == {}
        await guild_of(both, other)  # who is free for another


# -- slayer links ----------------------------------------------------------------


async def befriended(both: Both, one: Player, other: Player) -> None:
    await both.good("POST", friends_path(one, other), one)
    await both.good("POST", friends_path(other, one), other)


async def linked(both: Both, one: Player, other: Player) -> bool:
    """Whether the two have a link; both must say the same, on both."""
    said = [
        len((await both.good("GET", "/slayerlink/links", me, at=at))["payload"]["links"])
        for me in (one, other)
        for at in range(2)
    ]
    assert said in ([0] * 4, [1] * 4), said
    return bool(said[0])


@isolates("social/slayerlinks: invite")
@on_two_metagames
async def test_a_slot_holds_one_invite(both: Both) -> None:
    for _ in range(2):
        one, *others = await both.players(4)
        for other in others:
            await befriended(both, one, other)
        said = await at_once(
            *(
                both.call(
                    "PUT", "/slayerlink/invite", one, {"account_id": two["id"], "slot": 1}, at
                )
                for at, two in enumerate(others)
            )
        )
        assert statuses(said) == [200, 409, 409]


@isolates("social/slayerlinks: answer", "social/slayerlinks: drop_invites")
@on_two_metagames
async def test_a_link_is_there_for_both_or_for_nobody(both: Both) -> None:
    for _ in range(ROUNDS):
        one, other = await both.players(2)
        await befriended(both, one, other)
        wish = {"account_id": other["id"], "slot": 1}
        await both.good("PUT", "/slayerlink/invite", one, wish)
        accept = {"account_id": one["id"], "slot": 1, "action": "accept"}
        accepted, _ = await at_once(
            both.call("POST", "/slayerlink/invite", other, accept),
            both.call("DELETE", f"/slayerlink/invites/{other['id']}", one, at=1),
        )
        assert await linked(both, one, other) == (accepted[0] == 200)
        status = (await both.good("GET", "/slayerlink/status_good", other))["payload"]
        assert status["invites"] == []


@isolates("social/slayerlinks: end_link", "social/slayerlinks: answer")
@on_two_metagames
async def test_a_link_ends_for_both_and_its_slots_are_free(both: Both) -> None:
    for _ in range(ROUNDS):
        one, other = await both.players(2)
        await befriended(both, one, other)
        await both.good("PUT", "/slayerlink/invite", one, {"account_id": other["id"], "slot": 1})
        accept = {"account_id": one["id"], "slot": 1, "action": "accept"}
        await both.good("POST", "/slayerlink/invite", other, accept)
        said = await at_once(
            both.call("DELETE", "/slayerlink/links", one, {"account_id": other["id"]}),
            both.call("DELETE", "/slayerlink/links", other, {"account_id": one["id"]}, at=1),
        )
        assert statuses(said)[0] == 200
        assert not await linked(both, one, other)


# -- owners and accounts ------------------------------------------------------------


async def code_uses(both: Both, code: str) -> int | None:
    """What is left of a code; None once it is gone."""
    said = [
        {one["inviteCode"]: int(one["usesRemaining"]) for one in body["InviteCodes"]}
        for body in [await both.good("GET", f"{API}/InviteCodes", at=at) for at in range(2)]
    ]
    assert said[0] == said[1]
    return said[0].get(code)


async def audited(both: Both, action: str) -> list[dict[str, Any]]:
    """The rows of the audit log of one action, which both must show."""
    said = [await both.good("GET", f"{API}/DashboardAudit", at=at) for at in range(2)]
    assert said[0] == said[1]
    return [row for row in said[0]["rows"] if row["action"] == action]


def registering(both: Both, name: str, at: int, code: str | None = None) -> Awaitable[Said]:
    return both.call("POST", f"{API}/Register", body={"Username": name, "InviteCode": code}, at=at)


@isolates("accounts/management: register")
@on_two_metagames
async def test_one_name_one_account(both: Both) -> None:
    for number in range(ROUNDS):
        names = [f"Same_{number}", f"sAME_{number}"] * 2
        said = await at_once(*(registering(both, one, at) for at, one in enumerate(names)))
        assert statuses(said)[0] == 200
        assert sum(status == 200 for status, _ in said) == 1, said


@isolates("accounts/invites: create", "accounts/invites: put", "accounts/management: register")
@on_two_metagames
async def test_a_code_never_makes_more_accounts_than_it_was_given_uses(both: Both) -> None:
    await both.good("POST", f"{API}/RegistrationStatus", body={"RegistrationStatus": "INVITECODE"})
    await both.good(
        "POST", f"{API}/RegistrationStatus", body={"RegistrationStatus": "INVITECODE"}, at=1
    )
    made = await at_once(
        *(both.call("POST", f"{API}/CreateInvite", body={"uses": 1}, at=at) for at in range(6))
    )
    assert statuses(made) == [200] * 6
    codes = {said["code"] for _, said in made}
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


@isolates("accounts/invites: revoke", "accounts/management: register")
@on_two_metagames
async def test_a_revoked_code_makes_no_account_any_more(both: Both) -> None:
    for at in range(2):
        body = {"RegistrationStatus": "INVITECODE"}
        await both.good("POST", f"{API}/RegistrationStatus", body=body, at=at)
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
        wishes = [{"UserId": one["id"], "NewUsername": f"Wanted_{number}"} for one in pair]
        said = await at_once(
            *(
                both.call("POST", f"{API}/RenameUser", body=wish, at=at)
                for at, wish in enumerate(wishes)
            ),
            registering(both, f"wANTED_{number}", 1),
        )
        assert sum(status == 200 for status, _ in said) == 1, said
        statuses(said)


@isolates(
    "accounts/management: set_mode",
    "accounts/management: player_token",
    "accounts/audit: refuse",
    "owner/moderation: _do",
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


@isolates("owner/moderation: _do")
@on_two_metagames
async def test_two_owners_cannot_demote_each_other(both: Both) -> None:
    for number in range(ROUNDS):
        other = await both.player()
        role = {"Account": other["name"], "Role": "owner"}
        await both.good("POST", f"{API}/DashboardRole", body=role)
        theirs = {"x-svc-user-api-key": other["key"]}
        said = await at_once(
            both.services[0].ask(
                "POST", f"{API}/DashboardRole", {**role, "Role": "player"}, both.owner
            ),
            both.services[1].ask(
                "POST", f"{API}/DashboardRole", {"Account": "Owner", "Role": "player"}, theirs
            ),
        )
        good = [at for at, (status, _) in enumerate(said) if status == 200]
        assert len(good) == 1, (number, said)
        if good == [1]:  # the first owner is none any more; as it was before
            owner = {"Account": "Owner", "Role": "owner"}
            ask = both.services[0].ask("POST", f"{API}/DashboardRole", owner, theirs)
            assert (await ask)[0] == 200
            await both.good("POST", f"{API}/DashboardRole", body={**role, "Role": "player"})


@isolates("owner/announcements: make")
@on_two_metagames
async def test_of_two_announcements_both_processes_show_the_same(both: Both) -> None:
    for number in range(ROUNDS):
        said = await at_once(
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
        assert statuses(said) == [200, 200]
    assert len(await audited(both, "announce")) == 2 * ROUNDS


@isolates("owner/maintenance: record")
@on_two_metagames
async def test_of_two_switches_of_maintenance_mode_each_leaves_its_row(both: Both) -> None:
    for _ in range(ROUNDS):
        said = await at_once(
            *(both.call("POST", f"{API}/DashboardDrain", body={"On": True}, at=at) for at in (0, 1))
        )
        assert statuses(said) == [200, 200]
    assert len(await audited(both, "drain on")) == 2 * ROUNDS


# -- acts of one account, which do not look like it --------------------------------


async def character_of(both: Both, player: Player) -> str:
    return str((await both.good("GET", "/character", player))[0]["id"])


@isolates("belongings/savehistory: roll_back")
@on_two_metagames
async def test_a_save_in_flight_during_a_rollback_comes_before_it_or_is_refused(
    both: Both,
) -> None:
    for _ in range(ROUNDS):
        ann = await both.player()
        character = await character_of(both, ann)
        saves = [
            {"characterId": character, "updateVersion": n, "data": f'{{"n":{n}}}'}
            for n in (1, 2, 3)
        ]
        for save in saves[:2]:
            await both.good("POST", "/character", ann, save)
        back = {"CharacterId": character, "Version": 1}
        saved, (status, rolled) = await at_once(
            both.call("POST", "/character", ann, saves[2]),
            both.call("POST", f"{API}/RollbackCharacter", body=back, at=1),
        )
        assert status == 200
        assert (saved[0], rolled["PreviousVersion"]) in ((200, 3), (409, 2))
        [held] = await both.good("GET", "/character", ann)
        assert (held["data"], held["updateVersion"]) == ('{"n":1}', rolled["UpdateVersion"])


@isolates("belongings/savehistory: roll_back_loadout")
@on_two_metagames
async def test_a_loadout_saved_during_a_rollback_is_not_lost_unseen(both: Both) -> None:
    for _ in range(ROUNDS):
        ann = await both.player()
        character = await character_of(both, ann)
        slot = f"/loadout/{ann['id']}/{character}/0"
        texts = [f'{{"slot_index":0,"n":{n}}}' for n in (1, 2, 3)]
        for text in texts[:2]:
            await both.good("POST", slot, ann, {"data": text})
        back = {"CharacterId": character, "Version": 2}  # the first save made it
        saved, (status, rolled) = await at_once(
            both.call("POST", slot, ann, {"data": texts[2]}),
            both.call("POST", f"{API}/RollbackLoadout", body=back, at=1),
        )
        assert (saved[0], status) == (200, 200)
        held = await both.good("GET", f"/loadout/{ann['id']}/{character}/all", ann)
        [slot_0] = held["payload"]["loadouts"]
        assert (rolled["Version"], slot_0["n"]) in ((5, 1), (4, 3))


@isolates(
    "belongings/shop: issue", "belongings/shop: redeem", "belongings/housekeeping: housekeeping"
)
@on_two_metagames
async def test_a_purchase_counts_once_while_old_ones_are_deleted(both: Both) -> None:
    engine = make_engine(database_url(both.database))
    ledger = Waited(ledger_for(engine, reactor, accounts=ACCOUNTS.c.id))
    ledger.kept.startService()
    try:
        for _ in range(ROUNDS):
            ann = await both.player()
            character = await character_of(both, ann)
            tidy = housekeeping(ledger, Clock(), time.time)
            tidy.startService()
            issued = await at_once(
                *(both.call("GET", f"/token/platinum/{BUNDLE}", ann, at=at) for at in range(4))
            )
            tidy.stopService()
            assert statuses(issued) == [200] * 4
            token = issued[0][1]["purchaseToken"]
            tidy = housekeeping(ledger, Clock(), time.time)
            tidy.startService()
            redeemed = await at_once(
                *(
                    both.call("POST", f"/notification/platinum?token={token}", ann, at=at)
                    for at in range(6)
                )
            )
            tidy.stopService()
            assert statuses(redeemed) == [204] * 6
            held = await both.good("GET", f"/inventory/{ann['id']}/{character}", ann)
            stacks = {one["catalogId"]: one["quantity"] for one in held["stackedItems"]}
            assert stacks.get(ITEM) == SIZE
        assert ledger.done == 2 * ROUNDS
    finally:
        await maybeDeferred(ledger.kept.stopService)
        engine.dispose()


@isolates("owner/people: _look")
@on_two_metagames
async def test_two_processes_note_the_same_players_at_once(both: Both) -> None:
    players = [one["id"] for one in await both.players(20)]

    @frozen
    class Online:
        """The same players, at another time, in another order."""

        at: int
        order: list[str]

        async def all(self) -> list[Beat]:
            return [Beat(one, "", "", float(self.at)) for one in self.order]

    engine = make_engine(database_url(both.database))
    ledger = ledger_for(engine, reactor, accounts=ACCOUNTS.c.id)
    ledger.startService()
    try:
        for number in range(ROUNDS):
            one: Any = Online(10 * number, players)
            other: Any = Online(10 * number + 1, players[::-1])
            await gatherResults([Seen(ledger, one).look(), Seen(ledger, other).look()])
            seen = await ledger.read(lambda tx: tx.execute(select(ACCOUNT_SEEN)).all())
            assert {row.account_id for row in seen} == set(players)
            assert {row.at - 10 * number for row in seen} <= {0, 1}
    finally:
        await maybeDeferred(ledger.stopService)
        engine.dispose()


@define(eq=False)
class Waited:
    """A ledger that counts what it has done."""

    kept: Any
    done: int = 0

    def write(self, work: Any, scope: Any) -> Any:
        def note(result: Any) -> Any:
            self.done += 1
            return result

        return self.kept.write(work, scope).addCallback(note)
