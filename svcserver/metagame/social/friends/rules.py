"""The rules for friend requests, friendships and blocks. Spec: 1 §4 Friends, §8.

Times are epoch milliseconds.
"""

from enum import StrEnum
from typing import Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing

MAX_FRIENDS = 200  # friends and pending requests together
MAX_BLOCKS = 200
MAX_OPEN_REQUESTS = 50
MAX_NEW_REQUESTS = 20
NEW_REQUESTS_S = 600.0

PENDING = "PENDING"
ACCEPTED = "ACCEPTED"


class RequestResult(StrEnum):
    """The result of a friend request, as the management API returns it."""

    REQUESTED = "requested"
    ACCEPTED = "accepted"
    ALREADY_FRIENDS = "already_friends"
    ALREADY_REQUESTED = "already_requested"


@frozen
class Friendship:
    """A request (PENDING) or a friendship (ACCEPTED) between two accounts.

    ``created_at`` is the time of the request, also for a friendship. ``accepted_at`` is None for a
    request, and for a friendship that an older version stored without this time.
    """

    asked_by: AccountId
    recipient: AccountId
    status: str
    created_at: int
    accepted_at: int | None = None


@frozen
class Load:
    """The numbers of friendships and requests that an account has.

    ``rows`` is the number of friendships and requests together, and ``accepted`` is the number of
    friendships. ``sent`` is the number of unanswered requests that the account has sent.
    """

    rows: int
    accepted: int
    sent: int


class Friends(Protocol):
    """The stored friendships and blocks, inside one transaction."""

    def exists(self, account_id: AccountId) -> bool: ...

    def blocked_between(self, first: AccountId, second: AccountId) -> bool: ...

    def between(self, first: AccountId, second: AccountId) -> Friendship | None: ...

    def load(self, account_id: AccountId) -> Load: ...

    def add(self, friendship: Friendship) -> None: ...

    def accept(self, friendship: Friendship, at: int) -> None: ...

    def remove(self, first: AccountId, second: AccountId) -> bool: ...

    def blocks(self, blocker: AccountId) -> list[AccountId]: ...

    def block(self, blocker: AccountId, blocked: AccountId, at: int) -> None: ...

    def unblock(self, blocker: AccountId, blocked: AccountId) -> bool: ...


def named(friend: str) -> AccountId:
    """Return ``friend`` as an account id; raises Missing (404) if it is no valid id."""
    if not is_account_shaped(friend):
        raise Missing("no such account", code="not_found")
    return friend


def request(
    friends: Friends, me: AccountId, friend: AccountId, at: int, *, may_ask: bool
) -> tuple[RequestResult, Friendship]:
    """Send a friend request to ``friend``, or accept the request that ``friend`` has sent.

    ``may_ask`` is False when the quota of new requests is used up. The quota is checked last, and
    only for a new request.
    """
    _check_target(friends, me, friend)
    if friends.blocked_between(me, friend):
        raise Forbidden("one of you has blocked the other", code="blocked")
    between = friends.between(me, friend)
    if between is not None and between.status == ACCEPTED:
        return RequestResult.ALREADY_FRIENDS, between
    if between is not None and between.asked_by == me:
        return RequestResult.ALREADY_REQUESTED, between
    if between is not None:
        return RequestResult.ACCEPTED, _accept(friends, me, friend, between, at)
    mine = friends.load(me)
    if mine.rows >= MAX_FRIENDS or friends.load(friend).rows >= MAX_FRIENDS:
        raise Conflict("a friends list is full", code="limit")
    if mine.sent >= MAX_OPEN_REQUESTS:
        raise Conflict("too many unanswered requests", code="pending_limit")
    if not may_ask:
        raise Conflict("too many new requests, try again later", code="rate")
    new = Friendship(me, friend, PENDING, at)
    friends.add(new)
    return RequestResult.REQUESTED, new


def _accept(
    friends: Friends, me: AccountId, friend: AccountId, between: Friendship, at: int
) -> Friendship:
    if max(friends.load(me).accepted, friends.load(friend).accepted) >= MAX_FRIENDS:
        raise Conflict("a friends list is full", code="limit")
    friends.accept(between, at)
    return between


def block(friends: Friends, me: AccountId, target: AccountId, at: int) -> bool:
    """Block an account and end a friendship or request; return False if it was already blocked."""
    _check_target(friends, me, target)
    blocked = friends.blocks(me)
    if target in blocked:
        return False
    if len(blocked) >= MAX_BLOCKS:
        raise Conflict("the block list is full", code="limit")
    friends.block(me, target, at)
    friends.remove(me, target)
    return True


def unfriend(friends: Friends, me: AccountId, friend: AccountId) -> Friendship | None:
    """Remove and return the friendship or request between two accounts, if there is any."""
    between = friends.between(me, friend)
    if between is not None:
        friends.remove(me, friend)
    return between


def _check_target(friends: Friends, me: AccountId, target: AccountId) -> None:
    if target == me:
        raise Malformed("this is your own account", code="self")
    if not friends.exists(target):
        raise Missing("no such account", code="not_found")


def direction(friendship: Friendship, me: AccountId) -> str:
    """Return OUTBOUND if ``me`` sent the friend request, else INBOUND."""
    return "OUTBOUND" if friendship.asked_by == me else "INBOUND"


def other_of(friendship: Friendship, me: AccountId) -> AccountId:
    """Return the account with which ``me`` has this friendship."""
    return friendship.recipient if friendship.asked_by == me else friendship.asked_by
