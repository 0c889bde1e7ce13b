"""The features of accounts, made of what the metagame shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from svcserver.board.board import Board
from svcserver.kernel.counters import Counters
from svcserver.kernel.signals import Renamed, Signal
from svcserver.metagame.access.origin import Origin, is_own_address
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.access.tokens import Tokens
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.invites.acts import InviteActs
from svcserver.metagame.accounts.invites.routes import InviteRoutes
from svcserver.metagame.accounts.login.acts import LoginActs
from svcserver.metagame.accounts.login.routes import LoginRoutes
from svcserver.metagame.accounts.lookups.routes import LookupRoutes
from svcserver.metagame.accounts.management.acts import AccountActs, Also
from svcserver.metagame.accounts.management.routes import AccountManagementRoutes
from svcserver.metagame.accounts.networks import Networks
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Feature


def account_features(
    settings: Settings,
    board: Board,
    directory: Directory,
    tokens: Tokens,
    counters: Counters,
    audit: Audit,
    registration: Registration,
    renamed: Signal[Renamed],
    also_rename: Sequence[Also],
) -> Iterator[Feature]:
    """Log-in, look-ups, management and invites."""
    ledger, now = audit.ledger, audit.now
    network_of = Origin(settings, is_own_address).network
    networks = Networks(ledger, now)
    login = LoginActs(directory, tokens, counters, networks, directory.by_id)
    yield LoginRoutes(settings, directory, login, network_of)
    yield LookupRoutes(settings, directory, now)
    acts = AccountActs(
        ledger, tokens, registration, now, audit, networks, renamed, also_rename=also_rename
    )
    yield AccountManagementRoutes(acts, ReadLimit(board), network_of)
    yield InviteRoutes(InviteActs(ledger, audit))
