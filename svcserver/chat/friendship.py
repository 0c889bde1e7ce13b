"""Applies changes of friendships and blocks to the people online. Spec: 2 §4 Chat, §6."""

from __future__ import annotations

from attrs import define, evolve

from svcserver.chat.people import People
from svcserver.chat.presence import Presences
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Blocked, FriendAccepted


@define
class Friendships:
    """Updates the data of both accounts and sends them each other's presence."""

    people: People
    presences: Presences

    def begin(self, news: FriendAccepted, stamp: str) -> None:
        """Make two accounts friends and show them to each other."""
        self._befriend(news.asked, news.accepted_by)
        self._befriend(news.accepted_by, news.asked)
        self.presences.befriend(news, stamp)

    def end(self, first: AccountId, second: AccountId) -> None:
        """End a friendship and notify both accounts, unless neither has it."""
        # not ``or``: both must be updated
        if self._unfriend(first, second) | self._unfriend(second, first):
            self.presences.part(first, second)

    def block(self, news: Blocked) -> None:
        """Block an account, which ends the friendship."""
        self.end(news.by, news.whom)
        if (by := self.people.get(news.by)) is not None:
            by.change(evolve(by.about, blocks=by.about.blocks | {news.whom}))
        if (whom := self.people.get(news.whom)) is not None:
            whom.change(evolve(whom.about, blocked_by=whom.about.blocked_by | {news.by}))

    def _unfriend(self, account: AccountId, friend: AccountId) -> bool:
        """Remove a friend; returns whether it was one."""
        person = self.people.get(account)
        if person is None:
            return False
        friends = person.about.friends
        person.change(evolve(person.about, friends=friends - {friend}))
        return friend in friends

    def _befriend(self, account: AccountId, friend: AccountId) -> None:
        if (person := self.people.get(account)) is not None:
            about = person.about
            # nobody can accept across a block, so one that is still known here was lifted
            person.change(
                evolve(
                    about,
                    friends=about.friends | {friend},
                    blocks=about.blocks - {friend},
                    blocked_by=about.blocked_by - {friend},
                )
            )
