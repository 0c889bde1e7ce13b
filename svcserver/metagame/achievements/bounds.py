"""The limits that several features share: entitlement durations, and entries per account."""

from collections.abc import Collection, Iterable

from svcserver.kernel.refusals import Conflict

INT_MAX = 2**31 - 1  # the maximum of the client's counters
MAX_HOURS = 1e9  # maximum duration of an entitlement


def check_capacity(stored: Collection[str], wanted: Iterable[str], most: int) -> None:
    """Raise Conflict if ``wanted`` has new names and the total would exceed ``most`` names.

    If ``stored`` contains all ``wanted`` names already, there is no conflict.
    """
    added = {name for name in wanted if name not in stored}
    if added and len(stored) + len(added) > most:
        raise Conflict("this account has the maximum number of these entries")
