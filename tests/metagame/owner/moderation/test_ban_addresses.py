"""Bans and mutes that cover an account's addresses."""

from typing import Any

from sqlalchemy import text
from twisted.web.http_headers import Headers

from svcserver.metagame.access.origin import Origin
from svcserver.metagame.access.tokens import LIFETIME_S
from svcserver.metagame.accounts.networks import AGAIN_S, KEPT_S, MOST, MUTED, SqlNetworks
from svcserver.web.request import HttpRequest
from tests.metagame.owner.moderation.test_moderation import TOKEN, StaffCase
from tests.support.browser import Page
from tests.support.game import Game, Player
from tests.support.proves import proves

SECRET = "s" * 32
HOME, CAFE = "203.0.113.7", "2001:db8:1:2::7"


class AddressTests(StaffCase):
    def setUp(self) -> None:
        super().setUp()
        self.game = Game(self, GATEWAY_SECRET=SECRET)
        self.olga = self.game.player("Olga", admin=True)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")

    def through_gateway(self, address: str, path: str, **sent: Any) -> Page:
        headers = {"X-Forwarded-For": address, "x-svc-gateway": SECRET}
        return self.game.browse("POST", path, json=sent, headers=headers)

    def comes(self, player: Player, address: str) -> int:
        """Log the player in from that address; return the status."""
        return self.through_gateway(address, TOKEN, exchange_code=player.key).status

    def known(self, player: Player) -> list[str]:
        now = self.game.clock.seconds()
        return self.game.ledger.run(lambda tx: SqlNetworks(tx).networks_of(player.id, now))

    def ban(self, **sent: Any) -> Page:
        return self.do(self.olga, "Ban", "Ann_1", Addresses=True, **sent)

    @proves("a ban by addresses")
    def test_nobody_logs_in_from_banned_networks_until_the_ban_ends(self) -> None:
        self.comes(self.ann, HOME), self.comes(self.ann, CAFE)
        page = self.ban(For="2h")
        networks = [HOME, "2001:db8:1:2::/64"]
        self.assertEqual(sorted(page.json["Sanction"]["networks"]), sorted(networks))
        self.assertEqual(self.rows()[0]["after"]["networks"], page.json["Sanction"]["networks"])
        for address in (HOME, "2001:db8:1:2:ffff::1", f"::ffff:{HOME}"):
            self.assertEqual(self.comes(self.bob, address), 400, address)
        self.assertEqual(self.comes(self.bob, "203.0.113.8"), 200)
        self.assertEqual(self.comes(self.bob, "2001:db8:1:3::7"), 200)
        unknown = {"exchange_code": "UUK_" + "0" * 48}
        refused = self.through_gateway(HOME, TOKEN, exchange_code=self.bob.key)
        self.assertEqual(refused.body, self.through_gateway(HOME, TOKEN, **unknown).body)
        self.game.clock.advance(7_200)
        self.assertEqual(self.comes(self.bob, HOME), 200)

    @proves("a ban by addresses")
    def test_an_address_ban_ends_sessions_there_except_those_of_staff(self) -> None:
        staff = self.game.player("Mona", admin=True)
        cleo = self.game.player("Cleo")
        for listed_mute in (self.ann, self.bob, staff):
            self.comes(listed_mute, HOME)
        self.comes(cleo, CAFE)
        self.ban()
        playing = [
            player.name for player in (self.ann, self.bob, staff, cleo) if self.plays(player)
        ]
        self.assertEqual(playing, ["Mona", "Cleo"])
        self.assertEqual(self.comes(staff, HOME), 200)
        self.game.clock.advance(1)
        self.assertEqual(self.comes(self.bob, CAFE), 200)

    def test_an_address_ban_spares_players_last_seen_there_long_ago(self) -> None:
        self.comes(self.bob, HOME)
        self.game.clock.advance(LIFETIME_S + AGAIN_S + 1)
        self.comes(self.ann, HOME), self.comes(self.bob, CAFE)
        bob = self.game.parts.tokens.sign(self.bob.id)
        self.ban()
        self.assertEqual(self.game.browse("GET", "/accountinfo", token=bob).status, 200)

    @proves("a ban by addresses")
    def test_nobody_registers_from_a_banned_network(self) -> None:
        self.comes(self.ann, HOME)
        self.ban()
        page = self.through_gateway(HOME, "/svc/api/Register", Username="Ann_2")
        self.assertEqual((page.status, page.json["error"]), (400, "registration_closed"))
        page = self.through_gateway(CAFE, "/svc/api/Register", Username="Ann_2")
        self.assertEqual(page.status, 200)

    def test_an_unban_or_a_ban_without_addresses_lifts_the_networks(self) -> None:
        self.comes(self.ann, HOME)
        self.ban()
        self.assertEqual(self.comes(self.bob, HOME), 400)
        self.do(self.olga, "Ban", "Ann_1")
        self.assertEqual(self.comes(self.bob, HOME), 200)
        self.ban()
        self.assertEqual(self.comes(self.bob, HOME), 400)
        self.do(self.olga, "Unban", "Ann_1")
        self.assertEqual(self.comes(self.bob, HOME), 200)

    def test_a_mute_keeps_nobody_out(self) -> None:
        self.comes(self.ann, HOME)
        self.ban()
        self.do(self.olga, "Mute", "Ann_1")
        self.do(self.olga, "Unmute", "Ann_1")
        self.assertEqual(self.comes(self.bob, HOME), 400)
        listed = self.game.browse("GET", "/svc/api/DashboardSanctions", key=self.olga.key)
        self.assertEqual(
            [listed_mute["Sanction"]["networks"] for listed_mute in listed.json["sanctions"]],
            [[HOME]],
        )

    @proves("a mute by addresses")
    def test_a_mute_of_addresses_names_them_until_it_ends(self) -> None:
        self.comes(self.ann, HOME), self.comes(self.ann, CAFE)
        page = self.do(self.olga, "Mute", "Ann_1", Addresses=True, For="2h")
        networks = {HOME, "2001:db8:1:2::/64"}
        self.assertEqual(set(page.json["Sanction"]["networks"]), networks)
        self.assertEqual(set(self.rows()[0]["after"]["networks"]), networks)
        self.assertEqual(self.muted(), networks)
        self.assertEqual(self.comes(self.bob, HOME), 200)  # a mute of an address keeps nobody out
        listed = self.game.browse("GET", "/svc/api/DashboardSanctions", key=self.olga.key)
        [listed_mute] = listed.json["sanctions"]
        self.assertEqual(set(listed_mute["Sanction"]["networks"]), networks)
        self.ban()
        self.do(self.olga, "Unban", "Ann_1")
        self.assertEqual(self.muted(), networks)
        self.do(self.olga, "Mute", "Ann_1", For="2h")
        self.assertEqual(self.muted(), set())
        self.do(self.olga, "Mute", "Ann_1", Addresses=True, For="2h")
        self.game.clock.advance(7_200)
        self.assertEqual(self.muted(), set())

    @proves("a mute by addresses")
    def test_a_mute_lifted_by_an_older_metagame_mutes_no_address(self) -> None:
        """An older metagame lifts the mute, but leaves rows in a table that it does not know."""
        self.comes(self.ann, HOME)
        for lifts in ("DELETE FROM sanctions", "UPDATE sanctions SET ends_at = ends_at - 3600"):
            self.do(self.olga, "Mute", "Ann_1", Addresses=True, For="2h")
            self.assertEqual(self.muted(), {HOME})
            self.game.ledger.run(lambda tx, change=lifts: tx.execute(text(change)))
            self.assertEqual(self.muted(), set())
        listed = self.game.browse("GET", "/svc/api/DashboardSanctions", key=self.olga.key)
        [listed_mute] = listed.json["sanctions"]
        self.assertEqual(listed_mute["Sanction"]["networks"], [])
        self.do(self.olga, "Unmute", "Ann_1")
        self.do(self.olga, "Mute", "Ann_1", Addresses=True)
        self.assertEqual(self.muted(), {HOME})

    def muted(self) -> set[str]:
        """Return the currently muted addresses."""
        addresses, now = [HOME, "2001:db8:1:2::/64"], self.game.clock.seconds()
        return set(self.game.ledger.run(lambda tx: MUTED.among(tx, addresses, now)))

    def test_only_addresses_that_the_gateway_vouches_for_count(self) -> None:
        forged = {"X-Forwarded-For": HOME, "x-svc-gateway": "t" * 32}
        self.game.browse("POST", TOKEN, json={"exchange_code": self.ann.key}, headers=forged)
        self.log_in(self.ann)
        self.assertEqual(self.known(self.ann), [])
        self.assertEqual(self.ban().json["Sanction"]["networks"], [])
        self.assertEqual(self.comes(self.bob, HOME), 200)

    def test_the_newest_networks_of_a_month_are_kept(self) -> None:
        for number in range(MOST + 4):
            self.comes(self.ann, f"203.0.113.{number}")
            self.game.clock.advance(1)
        newest = [f"203.0.113.{number}" for number in range(MOST + 3, 3, -1)]
        self.assertEqual(self.known(self.ann), newest)
        self.game.clock.advance(KEPT_S)
        self.assertEqual(self.known(self.ann), [])
        self.comes(self.ann, HOME)
        self.assertEqual(self.known(self.ann), [HOME])

    def test_a_log_in_from_a_known_address_writes_nothing(self) -> None:
        self.comes(self.ann, HOME)
        begun = self.game.clock.seconds()
        self.game.clock.advance(AGAIN_S - 1)
        self.comes(self.ann, HOME)
        accounts = self.game.ledger.run(lambda tx: SqlNetworks(tx).near([HOME], begun))
        self.assertEqual(accounts, [])
        self.game.clock.advance(2)
        self.comes(self.ann, HOME)
        accounts = self.game.ledger.run(lambda tx: SqlNetworks(tx).near([HOME], begun))
        self.assertEqual(accounts, [self.ann.id])

    def test_a_peer_on_another_machine_counts_by_its_own_address(self) -> None:
        origin = Origin(self.game.settings, lambda address: address == "100.64.0.1")
        for peer, network in (
            ("100.64.0.9", "100.64.0.9"),
            ("fd7a:115c::9", "fd7a:115c::/64"),
            ("100.64.0.1", ""),
            ("127.0.0.1", ""),
        ):
            request = HttpRequest("POST", b"/", b"", Headers(), peer)
            self.assertEqual(origin.network(request), network)
        headers = Headers({b"x-forwarded-for": [b"203.0.113.7"]})
        self.assertEqual(origin.network(HttpRequest("POST", b"/", b"", headers, "100.64.0.9")), "")
