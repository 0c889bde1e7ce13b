"""Chat figures and announcements when the chat runs in several processes."""

from svcserver.kernel.signals import Announced, Renamed, Signal
from svcserver.metagame.chat_ports import figures, share_once, share_signal
from svcserver.metagame.owner.announcements.rules import (
    Announcement,
    NewAnnouncement,
    announced,
    due,
)
from tests.chat.fixture import ChatFixture, Client
from tests.chat.test_workers import Base

RESTART_S = 600


class FiguresTests(Base):
    def test_each_process_shows_the_players_of_all(self) -> None:
        self.in_room(self.here, 1), self.in_room(self.there, 2), self.there.bound(3)
        for fixture in (self.here, self.there):
            chat_figures = figures(fixture.server)
            self.assertEqual(
                (chat_figures.connections, chat_figures.people, chat_figures.room_count), (3, 3, 1)
            )
            [room] = chat_figures.rooms
            self.assertEqual((room.count, room.names), (2, ["Player1", "Player2"]))

    def test_a_rename_is_shown_where_the_player_is(self) -> None:
        ann = self.in_room(self.here, 1)
        for fixture, name in ((self.here, "Ann"), (self.there, "Player1")):
            fixture.server.on_renamed(Renamed(ann.account, "Ann"))
            self.assertEqual(figures(fixture.server).rooms[0].names, [name])


class AnnouncingTests(Base):
    """Each process reads the announcement and computes the countdown line that is due."""

    def setUp(self) -> None:
        super().setUp()
        self.marks: dict[ChatFixture, int | None] = {}
        self.signals: dict[ChatFixture, Signal[Announced]] = {}
        for fixture in (self.here, self.there):
            signal = self.signals[fixture] = Signal[Announced]()
            share_once(self.board, signal, fixture.server.on_announced)
        self.players = self.in_room(self.here, 1), self.in_room(self.there, 2)

    def look(self, fixture: ChatFixture, player: Announcement) -> None:
        """Do what each process does every second in ``Announcements._take``."""
        mark = self.marks.get(fixture)
        line, self.marks[fixture] = due(player, mark, self.clock.seconds())
        if line is not None:
            announced_line = Announced(line, player.made_at, self.marks[fixture] or 0)
            self.signals[fixture].send(announced_line)

    def take_announcements(self, client: Client) -> list[str]:
        return [player.partition("<body>")[2].partition("<")[0] for player in client.take_texts()]

    def announce(self, text: str) -> Announcement:
        return announced(NewAnnouncement(text, RESTART_S, RESTART_S), "owner", self.clock.seconds())

    def countdown(self) -> list[list[str]]:
        """Return the lines that each of two players receives during a countdown."""
        for player in self.players:
            player.take_texts()
        made = self.announce("New version")
        for _ in range(RESTART_S):
            for fixture in (self.here, self.there):
                self.look(fixture, made)
            self.clock.advance(1)
        return [self.take_announcements(entry) for entry in self.players]

    def test_every_countdown_line_reaches_each_player_once(self) -> None:
        ann, bob = self.countdown()
        self.assertEqual(ann, bob)
        self.assertEqual(len(ann), 6)
        self.assertEqual(len(set(ann)), 6)

    def test_without_deduplication_every_line_arrives_twice(self) -> None:
        """Check that the test above would fail without deduplication."""
        for fixture in (self.here, self.there):
            signal = self.signals[fixture] = Signal[Announced]()
            self.board._listeners[Announced] = []
            share_signal(self.board, signal, Announced, lambda news: None)
        for fixture in (self.here, self.there):
            self.board.listen(Announced, fixture.server.on_announced)
        ann, _ = self.countdown()
        self.assertEqual(len(ann), 12)

    def test_a_process_that_has_just_started_repeats_nothing(self) -> None:
        made = self.announce("Hunt night")
        self.look(self.here, made)
        self.assertEqual(
            [len(self.take_announcements(player)) > 0 for player in self.players], [True, True]
        )
        self.clock.advance(5)
        self.look(self.there, made)
        self.assertEqual([self.take_announcements(player) for player in self.players], [[], []])

    def test_a_late_process_does_not_repeat_an_old_announcement(self) -> None:
        first = self.announce("one")
        self.look(self.here, first)
        self.clock.advance(1)
        self.marks.clear()
        self.look(self.here, self.announce("two"))
        for player in self.players:
            player.take_texts()
        self.look(self.there, first)
        self.assertEqual([self.take_announcements(entry) for entry in self.players], [[], []])
