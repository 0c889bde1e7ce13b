"""The rules of encountered content. Spec: 1 §4 Encountered content."""

from collections.abc import Mapping, Sequence

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Forbidden, Malformed

MAX_TYPE = 7
MAX_QUERY_TYPE = 9999  # four digits in a query, as in a path
MAX_QUERY_TYPES = 1000


def check_own(owner: AccountId | None, me: AccountId) -> None:
    """Raise Forbidden if the character is unknown or belongs to another account."""
    if owner != me:
        raise Forbidden("not this player's character")


def check_reply(kinds: Sequence[int], content: Mapping[int, Sequence[str]], most: int) -> None:
    """Raise Malformed if duplicates in ``kinds`` give the reply more than ``most`` ids."""
    repeated = len(set(kinds)) < len(kinds)
    if repeated and sum(len(content.get(kind, ())) for kind in kinds) > most:
        raise Malformed("content_types repeats types, and the reply would be too large")
