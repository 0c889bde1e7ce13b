"""Presence between friends whose chats run in two metagames.

Real processes are needed because two metagames in one process would share memory.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chat.sockets import Talker
from tests.live.test_workers import chatting, sabotaged, talkers
from tests.support.processes import bearer

pytestmark = pytest.mark.live

SILENT_S = 3.0


def befriended(stack: ExitStack, folder: Path, **environ: str) -> tuple[Talker, Talker]:
    """Connect two players to different metagames and make them friends.

    Both players send their presence before they become friends.
    """
    both, ports = stack.enter_context(chatting(folder, CHAT_PRESENCE="1", **environ))
    (ann, anns), (bob, bobs) = talkers(stack, both, ports, 2)
    anns.show("away", "City-1")
    bobs.show("away", "City-2")
    for service, me, item in ((both.first, ann, bob), (both.second, bob, ann)):
        path = f"/friends/api/public/friends/{me['id']}/{item['id']}"
        assert service.ask("POST", path, headers=bearer(me))[0] in (200, 204)
    assert "OUTBOUND" in anns.hear("xmpp-admin@")
    assert "INBOUND" in bobs.hear("xmpp-admin@")
    return anns, bobs


def test_friends_at_two_workers_see_each_other(tmp_path: Path) -> None:
    with ExitStack() as stack:
        anns, bobs = befriended(stack, tmp_path)
        for player, second in ((anns, bobs), (bobs, anns)):
            shown = player.hear("<presence")
            assert "<show>away</show>" in shown
            assert second.account in shown
        anns.send("<presence><show>dnd</show></presence>")
        assert "<show>dnd</show>" in bobs.hear("<presence")
        anns.wire.close()
        assert 'type="unavailable"' in bobs.hear("<presence")


DEAF = "from svcserver.chat import presence\npresence.Presences.changed = lambda *_: None\n"


def test_friends_see_no_presence_if_workers_ignore_other_workers(tmp_path: Path) -> None:
    """Check that the test above fails if workers ignore each other's presence updates."""
    with ExitStack() as stack:
        for entry in befriended(stack, tmp_path, **sabotaged(DEAF)):
            entry.wire.settimeout(SILENT_S)
            with pytest.raises(TimeoutError):
                entry.hear("<presence")
