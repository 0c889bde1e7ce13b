"""An account's daily byte allowance."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import TooMany
from svcserver.metagame.accounts.data import LEAST, Allowance
from tests.support.game import Game

DAY_S = 86_400


FRIEND, BLOCK = (
    "/friends/api/public/friends/{me}/{other}",
    "/friends/api/public/blocklist/{me}/{other}",
)
SOCIAL = (
    ("POST", FRIEND, None),
    ("DELETE", FRIEND, None),
    ("POST", BLOCK, None),
    ("DELETE", BLOCK, None),
    ("PUT", "/guild/invite/{other}", None),
    ("POST", "/guild/invite/accept/any", None),
    ("DELETE", "/guild/invite/any", None),
    ("PUT", "/guild/rank/{other}/Officer", None),
    ("DELETE", "/guild/player", None),
    ("DELETE", "/guild/any", None),
    ("PUT", "/slayerlink/invite", {"account_id": "{other}", "slot": 1}),
    ("POST", "/slayerlink/invite", {"account_id": "{other}", "action": "accept"}),
    ("DELETE", "/slayerlink/invites/{other}", None),
    ("DELETE", "/slayerlink/links", {"account_id": "{other}"}),
)


class SocialTests(SynchronousTestCase):
    def test_social_writes_count_against_the_writers_daily_allowance(self) -> None:
        game = Game(self)
        ann, bob = game.player("Ann_1"), game.player("Bob_1")
        game.parts.data.allowance.spend(ann.id, game.settings.account_bytes_a_day)
        for method, path, body in SOCIAL:
            url = path.format(me=ann.id, other=bob.id)
            sent = {
                key: bob.id if value == "{other}" else value for key, value in (body or {}).items()
            }
            page = game.browse(method, url, json=sent, token=ann.token)
            self.assertEqual((method, path, page.status), (method, path, 429))
            self.assertIn("retry-after", page.headers)
        url = FRIEND.format(me=bob.id, other=ann.id)
        self.assertEqual(game.browse("POST", url, token=bob.token).status, 204)


class AllowanceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.allowance = Allowance(lambda: 86_400_000, self.clock.seconds)

    def test_a_spent_allowance_refills_evenly_over_a_day(self) -> None:
        self.allowance.spend("a", 86_400_000)
        why = self.assertRaises(TooMany, self.allowance.spend, "a", 1_000)
        self.assertEqual(why.retry_after_s, 1)
        self.clock.advance(1)
        self.allowance.spend("a", 1_000)
        self.assertRaises(TooMany, self.allowance.spend, "a", 1_000)
        self.clock.advance(DAY_S)
        self.allowance.spend("a", 86_400_000)

    def test_each_account_has_its_own_daily_allowance(self) -> None:
        self.allowance.spend("a", 86_400_000)
        self.allowance.spend("b", 86_400_000)

    def test_a_short_write_counts_at_least_the_size_of_its_rows(self) -> None:
        allowance = Allowance(lambda: 3 * LEAST, self.clock.seconds)
        for _ in range(3):
            allowance.spend("a", 1)
        self.assertRaises(TooMany, allowance.spend, "a", 1)

    def test_a_write_over_the_daily_limit_uses_up_the_whole_day(self) -> None:
        self.allowance.spend("a", 99_999_999)
        self.assertRaises(TooMany, self.allowance.spend, "a", 1)

    def test_an_allowance_of_0_means_no_limit(self) -> None:
        allowance = Allowance(lambda: 0, self.clock.seconds)
        for _ in range(3):
            allowance.spend("a", 10**12)
