"""Applies changes of friendships and blocks to the people online. Spec: 2 §4 Chat, §6."""

from __future__ import annotations

from attrs import define, evolve

from svcserver.chat.people import People
from svcserver.chat.presence import Presences
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Blocked, FriendAccepted


@define
class Friendships:
    """Updates both accounts' data, and sends them each other's presence."""

    people: People
    presences: Presences

    def begin(self, news: FriendAccepted, stamp: str) -> None:
        """Two accounts are friends now: update both, and show them to each other."""
        self._befriend(news.asked, news.accepted_by)
        self._befriend(news.accepted_by, news.asked)
        self.presences.befriend(news, stamp)

    def end(self, one: AccountId, other: AccountId) -> None:
        """Two accounts are no longer friends: tell both, unless both knew it already."""
        # not ``or``: both must be updated
        if self._unfriend(one, other) | self._unfriend(other, one):
            self.presences.part(one, other)

    def block(self, news: Blocked) -> None:
        """An account has blocked another: end the friendship, too."""
        self.end(news.by, news.whom)
        if (by := self.people.get(news.by)) is not None:
            by.change(evolve(by.about, blocks=by.about.blocks | {news.whom}))
        if (whom := self.people.get(news.whom)) is not None:
            whom.change(evolve(whom.about, blocked_by=whom.about.blocked_by | {news.by}))

    def _unfriend(self, one: AccountId, other: AccountId) -> bool:
        """Remove ``other`` from the friends of ``one``; whether it was one of them."""
        person = self.people.get(one)
        if person is None:
            return False
        friends = person.about.friends
        person.change(evolve(person.about, friends=friends - {other}))
        return other in friends

    def _befriend(self, one: AccountId, other: AccountId) -> None:
        if (person := self.people.get(one)) is not None:
            about = person.about
            # nobody can accept across a block, so one that is still known here was lifted
            person.change(
                evolve(
                    about,
                    friends=about.friends | {other},
                    blocks=about.blocks - {other},
                    blocked_by=about.blocked_by - {other},
                )
            )
