"""A request's second attempt announces events again, but undoes no change made since the first."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.signals import Blocked, FriendAccepted, GuildChanged, Unfriended
from svcserver.metagame.belongings.housekeeping import forgetting
from svcserver.metagame.once import ATTEMPTS, KEPT_S
from tests.metagame.attempts.base import FRIENDS, SECRET, GameFixture
from tests.support.game import GAME_SERVER_KEY


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = GameFixture(self)
        self.ann, self.bob, self.cat = self.fixture.ann, self.fixture.bob, self.fixture.cat
        self.request_id = self.fixture.new_id()

    def first(self, *request: Any) -> Any:
        return self.fixture.send(self.request_id, 1, *request)

    def again(self, *request: Any) -> Any:
        return self.fixture.send(self.request_id, 2, *request)

    def results(self) -> int:
        return len(self.fixture.game.ledger.run(lambda tx: tx.execute(ATTEMPTS.select()).all()))


class BeliefTests(Case):
    def kick(self) -> Any:
        self.fixture.party(self.ann, self.bob)
        return self.ann, f"DELETE /party/member/{self.bob.id}", None

    def test_without_the_gateways_secret_nothing_is_believed(self) -> None:
        request = self.kick()
        self.assertEqual(self.first(*request).status, 200)
        marks = {"x-svc-request-id": self.request_id, "x-svc-attempt": "2"}
        for secret in (None, "", SECRET[:-1], SECRET + "x"):
            headers = marks if secret is None else {**marks, "x-svc-gateway": secret}
            self.assertEqual(self.fixture.ask(*request, headers=headers).status, 404, secret)
        self.assertEqual(self.again(*request).status, 200)

    def test_without_the_secret_no_result_is_kept(self) -> None:
        line = f"POST {FRIENDS}/{self.ann.id}/{self.bob.id}"
        self.fixture.ask(self.ann, line, headers={"x-svc-request-id": self.request_id})
        self.assertEqual(self.results(), 0)
        self.first(self.ann, line)
        self.assertEqual(self.results(), 1)

    def test_the_number_of_an_attempt_is_a_whole_number_above_one(self) -> None:
        request = self.kick()
        self.first(*request)
        marks = {"x-svc-gateway": SECRET, "x-svc-request-id": self.fixture.new_id()}
        for number in ("0", "-2", "x", "", "9999999999"):
            headers = {**marks, "x-svc-attempt": number}
            self.assertEqual(self.fixture.ask(*request, headers=headers).status, 404, number)

    def test_the_id_of_another_account_or_row_is_a_conflict(self) -> None:
        for line, conflicting in (
            (f"POST {FRIENDS}/{{}}/{self.cat.id}", f"DELETE {FRIENDS}/{{}}/{self.cat.id}"),
            ("DELETE /party/member", f"DELETE /party/member/{self.cat.id}"),
        ):
            self.request_id = self.fixture.new_id()
            self.first(self.ann, line.format(self.ann.id))
            state = self.fixture.state()
            self.assertEqual(self.again(self.bob, line.format(self.bob.id)).status, 409)
            self.assertEqual(self.again(self.ann, conflicting.format(self.ann.id)).status, 409)
            self.assertEqual(self.fixture.state(), state)

    def test_access_is_checked_before_a_result_is_given(self) -> None:
        line = f"POST {FRIENDS}/{self.ann.id}/{self.bob.id}"
        self.first(self.ann, line)
        self.assertEqual(self.again(self.bob, line).status, 403)
        marks = {"x-svc-gateway": SECRET, "x-svc-request-id": self.request_id, "x-svc-attempt": "2"}
        page = self.fixture.game.browse("POST", line.partition(" ")[2], headers=marks)
        self.assertEqual(page.status, 401)


class TimeTests(Case):
    def test_a_result_is_deleted_after_ten_minutes(self) -> None:
        clock, ledger = self.fixture.game.clock, self.fixture.game.ledger
        service = forgetting(ledger, clock, clock.seconds)
        service.startService()
        self.addCleanup(service.stopService)
        for _ in range(3):
            self.request_id = self.fixture.new_id()
            self.first(self.ann, f"POST {FRIENDS}/{self.ann.id}/{self.bob.id}")
        clock.advance(KEPT_S)
        self.assertEqual(self.results(), 3)
        clock.advance(60.0)
        self.assertEqual(self.results(), 0)

    def test_results_on_the_board_survive_a_clean_stop(self) -> None:
        self.fixture.party(self.ann, self.bob)
        request = self.ann, f"DELETE /party/member/{self.bob.id}"
        self.first(*request)
        board = self.fixture.game.board
        saved = json.parse_deep(json.dump(board.saved()))
        board._tables.clear()
        board.restore(saved)
        self.assertEqual(self.again(*request).status, 200)


class NewsTests(Case):
    """A second attempt repeats the first attempt's announcements."""

    def collect_events(self, signal: Any, *request: Any) -> list[Any]:
        events: list[Any] = []
        signal.connect(events.append)
        statuses = {self.first(*request).status, self.again(*request).status}
        self.assertLessEqual(statuses, {200, 204})
        return events

    def test_leaving_a_guild_is_announced_again(self) -> None:
        guild = self.fixture.create_guild(self.ann, self.bob)
        changed = self.fixture.game.parts.guilds.changed
        events = self.collect_events(changed, self.bob, "DELETE /guild/player")
        self.assertEqual(events, [GuildChanged(guild, (self.bob.id,))] * 2)

    def test_the_end_of_a_guild_is_announced_again(self) -> None:
        guild = self.fixture.create_guild(self.ann, self.bob)
        changed = self.fixture.game.parts.guilds.changed
        events = self.collect_events(changed, self.ann, f"DELETE /guild/{guild}")
        self.assertEqual([set(event.left) for event in events], [{self.ann.id, self.bob.id}] * 2)

    def test_a_friendship_and_its_end_are_announced_again(self) -> None:
        news = self.fixture.game.parts.news
        self.fixture.did(self.bob, f"POST {FRIENDS}/{self.bob.id}/{self.ann.id}")
        line = f"{FRIENDS}/{self.ann.id}/{self.bob.id}"
        events = self.collect_events(news.friend_accepted, self.ann, f"POST {line}")
        self.assertEqual([type(event) for event in events], [FriendAccepted] * 2)
        self.request_id = self.fixture.new_id()
        events = self.collect_events(news.unfriended, self.ann, f"DELETE {line}")
        self.assertEqual(events, [Unfriended(self.ann.id, self.bob.id)] * 2)

    def test_a_block_is_announced_again(self) -> None:
        line = f"POST /friends/api/public/blocklist/{self.ann.id}/{self.bob.id}"
        events = self.collect_events(self.fixture.game.parts.news.blocked, self.ann, line)
        self.assertEqual(events, [Blocked(self.ann.id, self.bob.id)] * 2)


class BetweenTests(Case):
    """Other players' changes between two attempts are not undone."""

    def test_a_retried_kick_spares_a_rejoined_player(self) -> None:
        self.fixture.party(self.ann, self.bob)
        request = self.ann, f"DELETE /party/member/{self.bob.id}"
        self.first(*request)
        self.fixture.party(self.ann, self.bob)
        self.assertEqual(self.again(*request).status, 200)
        self.assertEqual(self.fixture.together(self.ann), ["Ann", "Bob"])

    def test_a_friend_request_that_came_in_between_stays(self) -> None:
        self.fixture.befriend(self.ann, self.bob)
        request = self.ann, f"DELETE {FRIENDS}/{self.ann.id}/{self.bob.id}"
        self.first(*request)
        self.fixture.did(self.bob, f"POST {FRIENDS}/{self.bob.id}/{self.ann.id}")
        state = self.fixture.state()
        self.assertEqual(self.again(*request).status, 204)
        self.assertEqual(self.fixture.state(), state)

    def test_a_guild_that_was_handed_back_is_not_handed_over_again(self) -> None:
        self.fixture.create_guild(self.ann, self.bob)
        request = self.ann, f"PUT /guild/rank/{self.bob.id}/leader"
        self.first(*request)
        self.fixture.did(self.bob, f"PUT /guild/rank/{self.ann.id}/leader")
        ranks = self.fixture.ranks(self.ann)
        self.assertEqual(self.again(*request).status, 200)
        self.assertEqual(self.fixture.ranks(self.ann), ranks)

    def test_a_newer_save_stays_and_the_answer_is_that_of_the_first(self) -> None:
        save = {"characterId": self.fixture.character(self.ann), "data": '{"a":1}'}
        request = self.ann, "POST /character", {**save, "updateVersion": 5}
        first = self.first(*request)
        self.fixture.pass_time()
        newer = self.fixture.did(self.ann, "POST /character", {**save, "updateVersion": 7})
        self.assertEqual(self.again(*request).json, first.json)
        self.assertEqual(self.fixture.did(self.ann, "GET /character"), [newer])

    def test_a_loadout_saved_back_and_forth_is_answered_as_the_first_time(self) -> None:
        path = f"/loadout/{self.ann.id}/{self.fixture.character(self.ann)}/0"
        texts = [json.dump({"slot_index": 0, "n": number}).decode() for number in (1, 2)]
        request = self.ann, f"POST {path}", {"data": texts[0]}
        first = self.first(*request)
        for text in texts[::-1]:
            self.fixture.did(self.ann, f"POST {path}", {"data": text})
        state = self.fixture.state()
        self.assertEqual(self.again(*request).json, first.json)
        self.assertEqual(self.fixture.state(), state)

    def test_a_quota_has_one_place_for_all_attempts(self) -> None:
        self.fixture.befriend(self.ann, self.bob)
        request = self.ann, "PUT /slayerlink/invite", {"account_id": self.bob.id, "slot": 1}
        self.first(*request)
        taken = self.fixture.state()["slayer_link_invites_sent"]
        self.assertEqual([self.again(*request).status for _ in range(3)], [200] * 3)
        self.assertEqual(self.fixture.state()["slayer_link_invites_sent"], taken)

    def test_a_repeated_game_server_request_counts_as_a_new_request(self) -> None:
        body = {"name": "Slayers", "nameplate": "", "leader_account_id": self.ann.id}
        self.fixture.did(self.ann, "POST /guild/validate", body)
        for status in (200, 409):
            page = self.fixture.game.browse(
                "POST", "/guild", json=body, game_server=GAME_SERVER_KEY
            )
            self.assertEqual(page.status, status)
