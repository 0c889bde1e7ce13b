"""The HTTP call that tells an allowlist helper to open or close the game ports for an address."""

from typing import Any

from twisted.internet.interfaces import IReactorTime

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret

TIMEOUT_S = 2.0
FIRST_AGAIN_S, LAST_AGAIN_S = 0.1, 5.0  # the wait after a failed report; it doubles each time
LATE_S = LAST_AGAIN_S + 1.5 * TIMEOUT_S  # longest delay of a report once the helper answers
CACHED_S = 30  # shorter than a service's keep-alive; otherwise a POST could be lost


class HelperRefused(ConnectionError):
    """The error when the allowlist helper answers with a status other than 200."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


async def post(
    http: Any, clock: IReactorTime, url: str, secret: Secret, body: dict[str, str]
) -> None:
    """Send an order to an allowlist helper with treq's client ``http``, and wait for the answer.

    Raises HelperRefused if the answer's status is not 200, Twisted's ``TimeoutError`` if no answer
    arrives in time, and any other error of the connection.
    """
    head = {"x-allowlist-secret": secret.reveal(), "content-type": "application/json"}
    reply = await http.post(url, data=json.dump(body), headers=head).addTimeout(TIMEOUT_S, clock)
    await reply.content().addTimeout(TIMEOUT_S, clock)
    if reply.code != 200:
        raise HelperRefused(reply.code)
