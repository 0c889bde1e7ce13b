"""Whether an invite to a slayer link was sent already; see ``kernel/repeats.py``."""

from __future__ import annotations

from svcserver.kernel.ids import AccountId
from svcserver.kernel.repeats import Repeat
from svcserver.metagame.social.slayerlinks.rules import Invite, SlayerLinks


def sent_before(
    links: SlayerLinks, me: AccountId, other: AccountId, at: int, repeat: Repeat
) -> Invite | None:
    """What the first try of an invite has sent, whatever came of it; None if there is nothing."""
    for one in links.sent(me):
        if one.recipient == other and repeat.may_have_done(one.created_at, at):
            return one
    return None
