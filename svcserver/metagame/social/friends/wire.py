"""The reply shapes of friends and blocks. Spec: 1 §4 Friends; 2 §4 Management API."""

from collections.abc import Iterable
from typing import TypedDict

from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Moment
from svcserver.kernel.times import iso
from svcserver.metagame.social.friends import rules
from svcserver.metagame.social.friends.rules import Friendship


class FriendEntry(TypedDict):
    """A friend (ACCEPTED) or an open request (PENDING); ``created`` is ISO 8601.

    ``direction`` is OUTBOUND if the caller sent the request, even after it is accepted.
    """

    accountId: str
    status: str
    direction: str
    created: Moment


class BlockedReply(TypedDict):
    """The accounts that the caller has blocked."""

    blockedUsers: list[str]


class FriendSettings(TypedDict):
    """A player's friend settings, which are constant: everybody may send friend requests."""

    acceptInvites: str


class FriendsReply(TypedDict):
    """The result of a friend request: requested, accepted, already_friends or already_requested."""

    From: str
    To: str
    Result: str


def show_friends(friendships: Iterable[Friendship], me: AccountId) -> list[FriendEntry]:
    """Return the list that shows these friendships to the account ``me``."""
    return [show_friend(friendship, me) for friendship in friendships]


def show_friend(friendship: Friendship, me: AccountId) -> FriendEntry:
    """Return the entry that shows a friendship to the account ``me``."""
    return {
        "accountId": rules.other_of(friendship, me),
        "status": friendship.status,
        "direction": rules.direction(friendship, me),
        "created": iso(friendship.created_at / 1000),
    }
