"""Two who are here become friends, or are friends no longer. Spec: 2 §4 Chat, §6."""

from __future__ import annotations

from attrs import define, evolve

from svcserver.chat.people import People
from svcserver.chat.presence import Presences
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Blocked, FriendAccepted


@define
class Friendships:
    """Changes what is known of both, and lets them see each other come or go."""

    people: People
    presences: Presences

    def begin(self, news: FriendAccepted, stamp: str) -> None:
        """They see each other from now on; what was between them before has ended."""
        self._befriend(news.asked, news.accepted_by)
        self._befriend(news.accepted_by, news.asked)
        self.presences.befriend(news, stamp)

    def end(self, one: AccountId, other: AccountId) -> None:
        """They no longer see each other; once, however often it is heard."""
        # not ``or``: both must forget, whichever of them still knew
        if self._unfriend(one, other) | self._unfriend(other, one):
            self.presences.part(one, other)

    def block(self, news: Blocked) -> None:
        """They no longer see or hear each other."""
        self.end(news.by, news.whom)
        if (by := self.people.get(news.by)) is not None:
            by.change(evolve(by.about, blocks=by.about.blocks | {news.whom}))
        if (whom := self.people.get(news.whom)) is not None:
            whom.change(evolve(whom.about, blocked_by=whom.about.blocked_by | {news.by}))

    def _unfriend(self, one: AccountId, other: AccountId) -> bool:
        """Whether ``one`` still took the other for a friend."""
        person = self.people.get(one)
        if person is None:
            return False
        friends = person.about.friends
        person.change(evolve(person.about, friends=friends - {other}))
        return other in friends

    def _befriend(self, one: AccountId, other: AccountId) -> None:
        if (person := self.people.get(one)) is not None:
            about = person.about
            # nobody can accept across a block, so one that we still know of was lifted
            person.change(
                evolve(
                    about,
                    friends=about.friends | {other},
                    blocks=about.blocks - {other},
                    blocked_by=about.blocked_by - {other},
                )
            )
