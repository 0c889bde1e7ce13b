"""The objects that all features share, made once per metagame."""

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from svcserver.board.board import Board
from svcserver.db.ledger import Ledger
from svcserver.kernel.counters import Counters
from svcserver.kernel.signals import News
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.access.epochs import Epochs
from svcserver.metagame.access.keys import Keys
from svcserver.metagame.access.origin import Origin, is_own_address
from svcserver.metagame.access.tokens import Tokens
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.behalf import Behalf
from svcserver.metagame.accounts.data import AccountData, Allowance
from svcserver.metagame.accounts.directory import Directory, LaunchedServers
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.accounts.networks import Networks
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.tries import RefusedTries
from svcserver.metagame.settings import MetagameSettings


class Parts:
    """The settings, the storage, the clocks and the accounts, passed to every feature's factory.

    ``wall_clock`` gives epoch seconds; ``clock`` runs timers.
    """

    def __init__(
        self,
        settings: MetagameSettings,
        ledger: Ledger,
        board: Board,
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        counters: Counters,
        launched: LaunchedServers,
    ) -> None:
        self.settings, self.ledger, self.board = settings, ledger, board
        self.clock, self.wall_clock, self.counters = clock, wall_clock, counters
        self.news = News()
        self.epochs = Epochs(self.news.sessions_ended)
        self.tokens = Tokens(wall_clock, Keys.from_settings(settings), self.epochs)
        self.acting = Acting(wall_clock)
        self.network_of = Origin(settings, is_own_address).network
        self.directory = Directory(ledger, wall_clock, launched, by_id=settings.login == "NONE")
        self.registration = Registration(ledger, board, lambda: settings.registration_mode)
        self.sessions = Sessions(ledger, board, self.epochs, wall_clock)
        self.audit = Audit(ledger, wall_clock)
        self.tries = RefusedTries(self.audit, board)
        self.behalf = Behalf(self.directory, self.audit, self.tries)
        self.networks = Networks(ledger, wall_clock)
        allowance = Allowance(lambda: settings.account_bytes_a_day, wall_clock)
        self.data = AccountData(ledger, allowance)
        self.events = EventLog(ledger, wall_clock, allowance)
