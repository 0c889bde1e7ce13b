"""What owners see and say where the chat is several processes: all of it, and once."""

from __future__ import annotations

from svcserver.kernel.signals import Announced, Renamed, Signal
from svcserver.metagame.chat_ports import figures, said_once, share_signal
from svcserver.metagame.owner.announcements.rules import Announcement, Wish, announced, due
from tests.chat.test_workers import Base
from tests.chat.town import Client, Town

RESTART_S = 600


class FiguresTests(Base):
    def test_each_process_shows_the_players_of_all(self) -> None:
        self.in_room(self.here, 1), self.in_room(self.there, 2), self.there.bound(3)
        for town in (self.here, self.there):
            said = figures(town.server)
            self.assertEqual((said.connections, said.people, said.room_count), (3, 3, 1))
            [room] = said.rooms
            self.assertEqual((room.count, room.names), (2, ["Player1", "Player2"]))

    def test_where_somebody_is_the_name_of_now_is_shown(self) -> None:
        ann = self.in_room(self.here, 1)
        for town, name in ((self.here, "Ann"), (self.there, "Player1")):
            town.server.on_renamed(Renamed(ann.account, "Ann"))
            self.assertEqual(figures(town.server).rooms[0].names, [name])


class AnnouncingTests(Base):
    """Each process reads what is announced, and finds by itself when a line of it is due."""

    def setUp(self) -> None:
        super().setUp()
        self.marks: dict[Town, int | None] = {}
        self.signals: dict[Town, Signal[Announced]] = {}
        for town in (self.here, self.there):
            signal = self.signals[town] = Signal[Announced]()
            said_once(self.board, signal, town.server.on_announced)
        self.players = self.in_room(self.here, 1), self.in_room(self.there, 2)

    def look(self, town: Town, one: Announcement) -> None:
        """What a process does every second, ``Announcements._take``."""
        mark = self.marks.get(town)
        line, self.marks[town] = due(one, mark, self.clock.seconds())
        if line is not None:
            said = Announced(line, one.made_at, self.marks[town] or 0)
            self.signals[town].send(said)

    def heard(self, client: Client) -> list[str]:
        return [one.partition("<body>")[2].partition("<")[0] for one in client.heard()]

    def announce(self, text: str) -> Announcement:
        return announced(Wish(text, RESTART_S, RESTART_S), "owner", self.clock.seconds())

    def countdown(self) -> list[list[str]]:
        """What each of two players hears from an announcement to its end."""
        for one in self.players:
            one.heard()
        made = self.announce("New version")
        for _ in range(RESTART_S):
            for town in (self.here, self.there):
                self.look(town, made)
            self.clock.advance(1)
        return [self.heard(one) for one in self.players]

    def test_every_line_of_a_countdown_is_heard_once_by_the_players_of_each(self) -> None:
        ann, bob = self.countdown()
        self.assertEqual(ann, bob)
        self.assertEqual(len(ann), 6)
        self.assertEqual(len(set(ann)), 6)

    def test_where_each_process_tells_all_every_line_comes_twice(self) -> None:
        """The sabotage: what the test above rests on."""
        for town in (self.here, self.there):
            signal = self.signals[town] = Signal[Announced]()
            self.board._listeners[Announced] = []
            share_signal(self.board, signal, Announced, lambda one: None)
        for town in (self.here, self.there):
            self.board.listen(Announced, town.server.on_announced)
        ann, _ = self.countdown()
        self.assertEqual(len(ann), 12)

    def test_a_process_that_has_just_started_repeats_nothing(self) -> None:
        made = self.announce("Hunt night")
        self.look(self.here, made)
        self.assertEqual([len(self.heard(one)) > 0 for one in self.players], [True, True])
        self.clock.advance(5)
        self.look(self.there, made)
        self.assertEqual([self.heard(one) for one in self.players], [[], []])

    def test_one_that_has_not_read_the_next_announcement_yet_says_no_more_of_the_last(self) -> None:
        first = self.announce("one")
        self.look(self.here, first)
        self.clock.advance(1)
        self.marks.clear()
        self.look(self.here, self.announce("two"))
        for one in self.players:
            one.heard()
        self.look(self.there, first)
        self.assertEqual([self.heard(one) for one in self.players], [[], []])
