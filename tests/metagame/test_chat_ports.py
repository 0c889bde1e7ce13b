"""The metagame's answers to the chat: about an account, and about a room's members."""

from __future__ import annotations

from svcserver.chat.ports import About, BadToken
from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.sanctions import Sanction, SanctionKind, SqlSanctions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.chat_ports import ChatGame, chat_game
from tests.metagame.social.guilds.base import DAY, Base
from tests.support.proves import proves

FRIENDS = "/friends/api/public/friends/"
BLOCKS = "/friends/api/public/blocklist/"


class ChatGameTests(Base):
    def setUp(self) -> None:
        super().setUp()
        self.asks = self.chat_game(guilds=True)

    def chat_game(self, *, guilds: bool) -> ChatGame:
        parts = self.game.parts
        return chat_game(parts.tokens, parts.ledger, parts.parties, parts.wall_clock, guilds)

    def about(self, account: str, asks: ChatGame | None = None) -> About | None:
        return self.successResultOf((asks or self.asks).about(account, frozenset()))

    @proves("a mute by addresses")
    def test_muted_networks_apply_to_everybody_but_staff(self) -> None:
        home, cafe = "203.0.113.7", "2001:db8:1:2::/64"
        now = self.game.parts.wall_clock()
        mute = Sanction("", "", "Olga", int(now), int(now) + 60, (home,))
        self.game.ledger.run(lambda tx: SqlSanctions(tx).put(self.ann.id, SanctionKind.MUTE, mute))

        def muted(account: str) -> frozenset[str]:
            result = self.successResultOf(self.asks.about(account, frozenset([home, cafe])))
            assert result is not None
            return result.muted_from

        self.assertEqual(muted(self.bob.id), {home})
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(self.bob.id, Role.HELPER))
        self.assertEqual(muted(self.bob.id), frozenset())
        self.assertEqual(muted(self.cat.id), {home})
        self.game.clock.advance(61)
        self.assertEqual(muted(self.cat.id), frozenset())

    def test_a_new_account_is_a_name_and_nothing_else(self) -> None:
        self.assertEqual(self.about(self.ann.id), About("Ann"))
        self.assertIsNone(self.about("UID-nobody"))

    def test_friends_and_blocks_are_seen_from_both_sides(self) -> None:
        for first, second in ((self.ann, self.bob), (self.bob, self.ann)):
            self.game.browse("POST", f"{FRIENDS}{first.id}/{second.id}", token=first.token)
        self.game.browse("POST", f"{BLOCKS}{self.ann.id}/{self.cat.id}", token=self.ann.token)
        friends, blocks = frozenset([self.bob.id]), frozenset([self.cat.id])
        self.assertEqual(self.about(self.ann.id), About("Ann", friends=friends, blocks=blocks))
        self.assertEqual(self.about(self.cat.id), About("Cat", blocked_by=frozenset([self.ann.id])))

    def test_a_players_guild_room_is_listed_only_while_guilds_are_on(self) -> None:
        made = self.create_guild(self.ann)
        about = self.about(self.ann.id)
        assert about is not None
        self.assertEqual(about.rooms, {("Guild", made)})
        self.assertEqual(self.about(self.ann.id, self.chat_game(guilds=False)), About("Ann"))

    def test_a_token_gives_its_account_and_a_bad_token_the_reason(self) -> None:
        self.assertEqual(self.asks.account_of(self.ann.token), self.ann.id)
        with self.assertRaises(BadToken) as bad:
            self.asks.account_of("x")
        self.assertEqual(str(bad.exception), "bad-token")
        self.game.clock.advance(8 * DAY)
        with self.assertRaises(BadToken) as bad:
            self.asks.account_of(self.ann.token)
        self.assertEqual(str(bad.exception), "expired")
