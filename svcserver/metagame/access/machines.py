"""The machine itself as a caller: ``svcctl`` and ``svc-stack``, by their tickets."""

from __future__ import annotations

from svcserver.kernel.headers import MACHINE
from svcserver.kernel.machine import actor_of
from svcserver.kernel.roles import Role
from svcserver.metagame.access.origin import Origin
from svcserver.metagame.rows import Caller
from svcserver.metagame.settings import Settings
from svcserver.web.request import HttpRequest


def machine_of(
    request: HttpRequest, settings: Settings, origin: Origin, now: float
) -> Caller | None:
    """The owner's hand on this machine, named as the audit log shall name it; None for others.

    It has no account, so what changes an account's own keys is not open to it.
    """
    ticket = request.header(MACHINE)
    if ticket is None or not settings.login or not request.direct:
        return None
    if not origin.is_this_machine(request):
        return None
    secret = settings.signing_private_key.reveal()
    actor = actor_of(secret, ticket, request.method, request.target, now)
    return None if actor is None else Caller(admin=True, name=actor, role=Role.OWNER)
