"""The checks of services, disks, the certificate and backups; faults cause alerts."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from svcserver.kernel import backups, host_state
from svcserver.kernel.alert_settings import AlertKind
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.kernel.host_state import (
    DOWN,
    FRESH_S,
    MOST_INCIDENTS,
    READY,
    STACK,
    STARTING,
    HostFault,
    HostState,
    Incident,
    ServiceState,
)
from svcserver.kernel.settings import parse_env_file, variables
from svcserver.kernel.system import epoch
from svcserver.stack.alerts.disks import Disk, disk_of, low_disks
from svcserver.stack.alerts.machine_load import HistoryWriter, MachineLoad
from svcserver.stack.alerts.rules import MAX_TEXT, Alert, Faults, note

log = Logger()
DOWN_S = 45.0  # a restart takes less time
LOOP_S = 600.0
LOOPS = 3  # crashes within LOOP_S
SOON_S = 30 * 86_400.0  # before the certificate expires
CERTIFICATE_EVERY_S = 3600.0
JUST_STARTED_S = 1.0  # a process that is this young has read its file just now
MAX_CHANGED = 100  # settings of one file
UNWATCHED = "host was not watched", "Neither svc-stack nor svc-watch was running."
READ_AT_EACH_USE = frozenset(variables(BackupSettings))


@frozen
class RunningProcess:
    """A component's process: its start time (epoch s), and the number of earlier starts."""

    since: float
    restarts: int
    version: str


@define(eq=False)
class EnvFileWatch:
    """The contents that the services' env files in ``folder`` had when the services started."""

    folder: Path
    environment: Mapping[str, str | None]  # overrides stack.env
    _started: dict[str, Mapping[str, str] | None] = field(factory=dict, init=False)

    def on_start(self, name: str, since: float, now: float) -> None:
        """Store the lines of the env file that a service read when it started.

        If the file has changed since the service started, the lines count as unknown.
        """
        path = self.folder / f"{name}.env"
        try:
            is_same = path.stat().st_mtime <= since or now - since < JUST_STARTED_S
        except OSError:
            return  # a service without a file of its own
        self._started[name] = _lines(path) if is_same else None

    def changed(self) -> dict[str, tuple[str, ...] | None]:
        """Map each service to its settings that have changed since its start and need a restart.

        The value is None if the changes are unknown; services without changes are left out.
        """
        changes = {name: self._changed(name, was) for name, was in self._started.items()}
        return {name: names for name, names in changes.items() if names != ()}

    def _changed(self, name: str, was: Mapping[str, str] | None) -> tuple[str, ...] | None:
        now = _lines(self.folder / f"{name}.env")
        if was is None or now is None:
            return None
        names = {each for each in (*was, *now) if was.get(each) != now.get(each)}
        if name == STACK:
            names -= READ_AT_EACH_USE | self.environment.keys()
        return tuple(sorted(names)[:MAX_CHANGED])


def _lines(path: Path) -> Mapping[str, str] | None:
    try:
        return parse_env_file(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        return None


@define(eq=False)
class HostWatch:
    """The checks of a host; ``ready`` returns the names of the components that answer requests.

    ``environment`` has the environment variables that override ``stack.env``. The value of a secret
    is replaced by None.
    """

    folder: Path
    data: Path
    names: tuple[str, ...]  # of the components
    ready: Callable[[], set[str]]
    send: Callable[[Alert], object]
    wall_clock: Callable[[], float] = epoch
    disk: Callable[[Path], Disk] = disk_of
    backs_up: bool = True  # the host should have backups (BACKUP_AT)
    environment: Mapping[str, str | None] = field(factory=dict)
    faults: Faults = field(factory=Faults)
    _away_since: dict[str, float] = field(factory=dict, init=False)
    _crashes: dict[str, deque[float]] = field(factory=dict, init=False)
    _is_expecting_backups: bool = field(default=False, init=False)
    open_files: dict[str, tuple[int, int]] = field(factory=dict, init=False)
    _processes: dict[str, RunningProcess] = field(factory=dict, init=False)
    _standing: dict[tuple[AlertKind, str], HostFault] = field(factory=dict, init=False)
    _incidents: tuple[Incident, ...] = field(default=(), init=False)
    _load: MachineLoad | None = field(default=None, init=False)
    _history: HistoryWriter = field(init=False)
    _certificate: tuple[float, float | None] | None = field(default=None, init=False)
    _env_files: EnvFileWatch = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._env_files = EnvFileWatch(self.folder, self.environment)
        self._history = HistoryWriter(self.data)

    def on_crash(self, name: str) -> None:
        """Record that a component ended without being stopped."""
        self._crashes.setdefault(name, deque(maxlen=LOOPS)).append(self.wall_clock())

    def on_start(self, name: str, since: float) -> None:
        """Record that a component's process started at ``since`` (epoch s)."""
        previous = self._processes.get(name)
        restarts = 0 if previous is None else previous.restarts + 1
        self._processes[name] = RunningProcess(since, restarts, installed_version())
        self._env_files.on_start(name, since, self.wall_clock())

    def check(self) -> None:
        """Check the host and send an alert for each fault that has begun or ended."""
        now = self.wall_clock()
        load = self._load or self._restore(now)
        for what, subject, wrong in self._results(now):
            self.report(what, subject, wrong, now)
        self._write_state(now, load)

    def _restore(self, now: float) -> MachineLoad:
        """Restore the load and the incidents that an earlier process wrote."""
        self._load = MachineLoad(self.data, self.disk)
        previous = host_state.stored(self.data)
        if previous is not None:
            recent = now - previous.at <= FRESH_S
            self._load.load(previous.machine if recent else (), now)
            ended = (
                evolve(incident, until=incident.until or previous.at)
                for incident in previous.incidents
            )
            away = () if recent else (Incident(*UNWATCHED, previous.at, now),)
            self._incidents = (*self._incidents, *away, *ended)[:MOST_INCIDENTS]
        return self._load

    def _write_state(self, now: float, load: MachineLoad) -> None:
        """Write the host's services, faults, load and incidents to a file for the dashboard."""
        state = HostState(
            now,
            tuple(self._service(name, now) for name in self.names),
            tuple(self._standing.values()),
            load.sample(now, self.open_files),
            self.environment,
            self._env_files.changed(),
            self._incidents,
        )
        try:
            host_state.write(self.data, state)
            self._history.note(state.machine[-1], state.services)
        except OSError as error:
            text = "the host's state cannot be written for the overview: {why}"
            log.error(text, why=error.strerror)

    def _service(self, name: str, now: float) -> ServiceState:
        away_since, process = self._away_since.get(name), self._processes.get(name)
        state = READY if away_since is None else STARTING
        if away_since is not None and now - away_since >= DOWN_S:
            state = DOWN
        if process is None:
            return ServiceState(name, state)
        return ServiceState(name, state, process.since, process.restarts, process.version)

    def report(self, what: AlertKind, subject: str, wrong: str | None, now: float) -> None:
        """Send an alert if a fault has begun or ended; ``wrong`` is the fault's text, or None."""
        key = what, subject
        if wrong is None:
            self._standing.pop(key, None)
        elif key in self._standing or len(self._standing) < host_state.MOST:
            since = self._standing[key].since if key in self._standing else now
            self._standing[key] = HostFault(
                what, Alert(what, subject, wrong, now).title, wrong[:MAX_TEXT], since
            )
        alert = self.faults.update(what, subject, wrong, now)
        if alert is not None:
            self._incidents = note(self._incidents, alert)
            self.send(alert)

    def _results(self, now: float) -> Iterator[tuple[AlertKind, str, str | None]]:
        ready = self.ready()
        for name in self.names:
            yield AlertKind.LOOP, name, self._loops(name, now)
            yield AlertKind.DOWN, name, self._away(name, name in ready, now)
        for subject, wrong in low_disks(self.folder, self.data, self.disk):
            yield AlertKind.DISK, subject, wrong
        yield AlertKind.CERTIFICATE, "the gateway's", self._certificate_fault(now)
        self._expect_backups(now)
        state = backups.read(self.data)
        yield AlertKind.BACKUP, "the host's", state.wrong(now) if state is not None else None

    def _expect_backups(self, now: float) -> None:
        """Record once whether the host should have backups, so that missing backups are noticed."""
        if self._is_expecting_backups:
            return
        self._is_expecting_backups = True
        try:
            backups.expect(self.data, now, wanted=self.backs_up)
        except OSError as error:
            text = "{file} cannot be written: {why}; missing backups are not detected"
            log.error(text, file=str(self.data / backups.STATE_FILE), why=error.strerror)

    def _away(self, name: str, is_ready: bool, now: float) -> str | None:
        if is_ready:
            self._away_since.pop(name, None)
            return None
        since = self._away_since.setdefault(name, now)
        if now - since < DOWN_S:
            return None
        return (
            f"It has not been ready, or has not answered, for {now - since:.0f} s. "
            "See its log lines."
        )

    def _loops(self, name: str, now: float) -> str | None:
        crashes = self._crashes.get(name)
        if crashes is None or len(crashes) < LOOPS or now - crashes[0] > LOOP_S:
            return None
        return f"It has ended {LOOPS} times within {LOOP_S / 60:.0f} minutes."

    def _certificate_fault(self, now: float) -> str | None:
        if self._certificate is None or now - self._certificate[0] >= CERTIFICATE_EVERY_S:
            self._certificate = now, certificate_end(self.folder)
        end = self._certificate[1]
        if end is None or end - now > SOON_S:
            return None
        day = datetime.fromtimestamp(end, UTC).date()
        return (
            f"It expires on {day}. Run svcctl cert make, send everybody a new invite, then run "
            'svcctl cert switch; see the page "Letting players in over the internet".'
        )


def installed_version() -> str:
    """Return the version of the installed package: a process that starts now runs this version."""
    try:
        return version("svcserver")
    except PackageNotFoundError:
        return ""


def certificate_end(folder: Path) -> float | None:
    """Return when the gateway's certificate expires (epoch seconds), or None if that is unknown."""
    from cryptography import x509  # imported late: not needed without a gateway

    try:
        settings = parse_env_file((folder / "gateway.env").read_text("utf-8-sig"))
        path = folder / settings.get("GATEWAY_CERT", "gateway-cert.pem")
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None
    return certificate.not_valid_after_utc.timestamp()
