"""Keys of game servers that the deploy server made, one for each launch.

Nothing about them is kept here: the deploy server, which owns the processes, is asked, so that
a key ends with its game server and outlives a restart of the metagame.
"""

from __future__ import annotations

import re

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredSemaphore, succeed
from twisted.logger import Logger

from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.play.deploy_client import DeployClient

log = Logger()

AT_ONCE = 16  # questions under way
MAX_WAITING = 1_024
_KEY = re.compile(r"[0-9a-f]{64}\Z")


@define
class LaunchKeys:
    """Asks the deploy server whose key it is."""

    deploy: DeployClient
    _turns: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(AT_ONCE), init=False)

    def knows(self, key: str) -> Deferred[bool]:
        """Whether a game server that lives was launched with the key."""
        if not _KEY.match(key):
            return succeed(False)
        if len(self._turns.waiting) >= MAX_WAITING:
            log.warn("too many unknown game-server keys at once; one was refused unasked")
            return succeed(False)
        return self._turns.run(self._ask, fingerprint(key))

    def _ask(self, key_hash: str) -> Deferred[bool]:
        return Deferred.fromCoroutine(self.deploy.knows_launch_key(key_hash))
