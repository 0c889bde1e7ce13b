"""Rules of cooldowns. Spec: 1 §4 PUT /cooldown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from svcserver.kernel.ids import AccountId
from svcserver.metagame.achievements.bounds import check_capacity

if TYPE_CHECKING:
    from svcserver.metagame.achievements.cooldowns.feature import SqlCooldowns

_THROWAWAY = re.compile(r"[0-9A-F]{32}\Z")


def start_all(
    cooldowns: SqlCooldowns, account_id: AccountId, started: Mapping[str, str], most: int
) -> None:
    """Start or restart cooldowns; raises Conflict beyond ``most``."""
    check_capacity(cooldowns.all(account_id), started, most)
    cooldowns.keep(account_id, started)


def start(
    cooldowns: SqlCooldowns, account_id: AccountId, name: str, now: str, yesterday: str, most: int
) -> None:
    """Start one and drop one-time ids from before ``yesterday``; Conflict beyond ``most``."""
    stored = cooldowns.all(account_id)
    old = [one for one, date in stored.items() if is_throwaway(one) and date < yesterday]
    check_capacity(stored.keys() - set(old), [name], most)
    cooldowns.drop(account_id, old)
    cooldowns.keep(account_id, {name: now})


def is_throwaway(cooldown_id: str) -> bool:
    """Whether it is an id that a game server made for one use; such are dropped after a day."""
    return _THROWAWAY.match(cooldown_id) is not None
