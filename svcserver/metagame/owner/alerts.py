"""The dashboard's routes about alerts, for direct callers only (not through a proxy)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import Connection

from svcserver.kernel import alert_channels, host_state
from svcserver.kernel.alert_channels import MOST, AlertChannel, AlertChannels, Delivery, is_name
from svcserver.kernel.alert_settings import (
    MAIL,
    PATTERN,
    Channel,
    ChannelFault,
    differences,
    name_of,
    path_of,
    read_channel,
    read_channels,
    unfit,
    write_channel,
)
from svcserver.kernel.host_state import Incident
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Unavailable
from svcserver.kernel.roles import Role
from svcserver.kernel.secrets import hex_token
from svcserver.kernel.settings import BadSetting, load, parse_env_file
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text, text_where
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.accounts.audit import Act, AuditEntry, Trace
from svcserver.metagame.accounts.recorded import reason_of
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer

Name = Annotated[str, text_where(is_name, "a channel's name: small letters, digits and -")]


@spelled(pascal_case)
@frozen
class TrialRequest:
    """The name of the alert channel to test."""

    name: Name
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class ChannelRequest:
    """The settings of an alert channel, as in its file; ``New`` is true for a new channel.

    An empty URL or token keeps the stored value. But a new URL or a change of ``Private`` deletes
    the stored token, so that no new receiver gets it. ``NewSecret`` replaces the secret that signs
    webhooks. ``Mark`` is copied from the reply with the settings. If the channel's file has
    changed since that reply, the request is refused.
    """

    name: Name
    new: bool
    form: Annotated[str, text(1, 16)]
    url: Annotated[str, text(0, 2048)] = field(default="", repr=False)
    token: Annotated[str, text(0, 4096)] = field(default="", repr=False)
    about: Annotated[str, text(0, 128)] = ""
    quiet: Annotated[str, text(0, 16)] = ""
    private: bool = False
    room: Annotated[str, text(0, 255)] = ""
    mail_from: Annotated[str, text(0, 320)] = ""
    mail_to: Annotated[str, text(0, 1024)] = ""
    mail_user: Annotated[str, text(0, 320)] = ""
    new_secret: bool = False
    mark: Annotated[str, text(0, 32)] = ""
    reason: Reason = ""

    def values(self, previous: Mapping[str, str]) -> dict[str, str]:
        """Return the new content of the channel's file; ``previous`` is the current content."""
        private = "1" if self.private else ""
        same = not self.url and private == previous.get("PRIVATE", "")
        values = {
            "FORM": self.form,
            "URL": self.url or previous.get("URL", ""),
            "TOKEN": self.token or (previous.get("TOKEN", "") if same else ""),
            "SIGNING_SECRET": "" if self.new_secret else previous.get("SIGNING_SECRET", ""),
            "UNSIGNED": "" if self.new_secret else previous.get("UNSIGNED", ""),
            "ABOUT": self.about,
            "QUIET": self.quiet,
            "PRIVATE": private,
            "ROOM": self.room,
            "MAIL_FROM": self.mail_from,
            "MAIL_TO": self.mail_to,
            "MAIL_USER": self.mail_user,
        }
        if self.form != MAIL and not values["SIGNING_SECRET"] and not values["UNSIGNED"]:
            values["SIGNING_SECRET"] = hex_token(64)
        return {name: value.strip() for name, value in values.items() if value.strip()}


class TestRequestedReply(TypedDict):
    """The reply to a request for a test alert; the channel list shows the result later."""

    asked: bool


class DeliveryReply(TypedDict):
    """An alert sent through a channel; ``why`` is the delivery error, null on success."""

    at: Moment
    title: str
    why: str | None


class ChannelReply(TypedDict):
    """An alert channel.

    An empty ``about`` means all alerts. ``quiet`` is a time span like 23:00-07:00, or null.
    ``deliveries`` are the newest alerts, newest first; ``last`` is the newest alert.
    """

    name: str
    form: str
    about: list[str]
    quiet: str | None
    last: DeliveryReply | None
    deliveries: list[DeliveryReply]


class BrokenChannelReply(TypedDict):
    """A channel whose file cannot be used, and why."""

    name: str
    why: str


class IncidentReply(TypedDict):
    """A reported fault; ``since`` is the time of its first alert.

    ``until`` is null while the fault lasts.
    """

    title: str
    text: str
    since: Moment
    until: Moment | None


class AlertsReply(TypedDict):
    """The alert channels and the latest incidents, newest first.

    ``on`` is false if no service sends alerts. ``broken`` are the channels that get no alerts until
    the owner corrects their files. ``wrong`` are faults in the files of channels that still work.
    """

    on: bool
    channels: list[ChannelReply]
    broken: list[BrokenChannelReply]
    wrong: list[str]
    incidents: list[IncidentReply]


class ChannelSettingsReply(TypedDict):
    """The settings of a channel, except its secrets.

    ``token`` says whether the channel has a token; ``signed`` says whether its webhooks are signed.
    ``mark`` changes whenever the channel's file changes.
    """

    mark: str
    name: str
    form: str
    about: list[str]
    quiet: str
    private: bool
    room: str
    mailFrom: str
    mailTo: str
    mailUser: str
    token: bool
    signed: bool


class ChannelSavedReply(TypedDict):
    """The channel's name; ``signingSecret`` is null, or a new secret that is shown only once."""

    name: str
    signingSecret: str | None


TEST_REQUESTED: TestRequestedReply = {"asked": True}


def show_alerts(
    channels: AlertChannels, broken: Sequence[ChannelFault], incidents: Sequence[Incident]
) -> AlertsReply:
    """Return the reply with all channels and incidents."""
    return {
        "on": channels.on,
        "channels": [_channel(channel) for channel in channels.all],
        "broken": [{"name": fault.name, "why": fault.text} for fault in broken],
        "wrong": [*channels.wrong],
        "incidents": [_incident(incident) for incident in incidents],
    }


def _incident(incident: Incident) -> IncidentReply:
    return {
        "title": incident.title,
        "text": incident.text,
        "since": iso(incident.since),
        "until": None if incident.until is None else iso(incident.until),
    }


def _channel(channel: AlertChannel) -> ChannelReply:
    deliveries = [_delivery(delivery) for delivery in channel.deliveries]
    return {
        "name": channel.name,
        "form": channel.form,
        "about": [*channel.about],
        "quiet": channel.quiet or None,
        "last": deliveries[0] if deliveries else None,
        "deliveries": deliveries,
    }


def _delivery(delivery: Delivery) -> DeliveryReply:
    return {"at": iso(delivery.at), "title": delivery.title, "why": delivery.why or None}


def show_settings(name: str, channel: Channel, mark: str) -> ChannelSettingsReply:
    """Return the channel's settings, except its secrets."""
    return {
        "mark": mark,
        "name": name,
        "form": channel.form,
        "about": [kind.value for kind in channel.about],
        "quiet": channel.hours,
        "private": channel.private,
        "room": channel.room,
        "mailFrom": channel.mail_from,
        "mailTo": ", ".join(channel.mail_to),
        "mailUser": channel.mail_user,
        "token": channel.token is not None,
        "signed": channel.signing_secret is not None,
    }


NOBODY = "no service sends alerts here: start svc-stack or svc-watch, or use svcctl alerts test"
NO_FOLDER = (
    "the metagame does not know the folder of the channels. Start it with --env-file, or use "
    "svcctl alerts"
)
LABELS = {  # the names of the settings on the page
    "URL": "The address",
    "TOKEN": "The token",
    "FORM": "The type",
    "ABOUT": "The kinds of alerts",
    "QUIET": "The quiet time",
    "ROOM": "The room",
    "MAIL_FROM": "The sender",
    "MAIL_TO": "The receiver",
    "MAIL_USER": "The mail user",
}


def check(values: Mapping[str, str]) -> Channel:
    """Return the channel with these settings.

    Raises Malformed; the message uses the settings' labels from the dashboard.
    """
    if "URL" not in values:
        raise Malformed("The address is missing.", code="bad_request")
    try:
        channel = load(Channel, values)[0]
    except BadSetting as error:
        name, _, rest = str(error).partition(" ")
        raise Malformed(f"{LABELS.get(name, name)} {rest}.", code="bad_request") from None
    wrong = unfit(channel)
    if channel.form == "matrix" and not (channel.room and channel.token):
        wrong = "Matrix needs the room and the access token."
    elif channel.mail_user and channel.token is None:
        wrong = "Enter the password of the mail user."
    elif channel.form == MAIL and not (channel.mail_from and channel.mail_to):
        wrong = "Mail needs a sender and a receiver."
    elif wrong is not None and "PRIVATE" in wrong:
        wrong = "The address must begin with https://, unless it is in your own network."
    elif wrong is not None:
        wrong = wrong.replace("URL", LABELS["URL"], 1) + "."
    if wrong is not None:
        raise Malformed(wrong, code="bad_request")
    return channel


@define(eq=False)
class AlertActs:
    """The owner's operations on alerts.

    ``folder`` is the services' working folder, which has the state of the channels. ``config``
    returns the folder with the host's settings and the channels' files, or None if the folder is
    unknown.
    """

    record: Callable[[AuditEntry, Act[None]], Awaitable[None]]  # adds a row to the audit log
    with_file: Callable[[AuditEntry, Act[None]], Awaitable[None]]  # adds a row before and one after
    config: Callable[[], Path | None]
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)

    def channels(self) -> AlertChannels:
        """Return the alert channels.

        If the folder of the channels' files is unknown, the settings come from the state file of
        the service that sends alerts.
        """
        return self._read_channels()[0]

    def read_alerts(self) -> AlertsReply:
        """Return the usable channels, the channels with unusable files, and the incidents."""
        state = host_state.stored(self.folder)
        return show_alerts(*self._read_channels(), () if state is None else state.incidents)

    def _read_channels(self) -> tuple[AlertChannels, list[ChannelFault]]:
        state = alert_channels.read(self.folder, self.wall_clock())
        config = self.config()
        if config is None:
            return state or AlertChannels(on=False), []
        previous = state or alert_channels.stored(self.folder) or AlertChannels()
        deliveries = {channel.name: channel.deliveries for channel in previous.all}
        channels, faults = read_channels(config)
        shown = AlertChannels(
            [
                AlertChannel(
                    named.name,
                    named.channel.form,
                    tuple(kind.value for kind in named.channel.about),
                    named.channel.hours,
                    deliveries.get(named.name, ()),
                )
                for named in channels
            ],
            [fault.text for fault in faults if fault.usable],
            on=state is not None,
        )
        return shown, [fault for fault in faults if not fault.usable]

    async def test(self, by: str, name: str, reason: str = "") -> None:
        """Request a test alert for a channel; raises Conflict, Missing or Unavailable."""

        def act(_: Connection, __: Trace) -> None:
            channels = self.channels()
            if not channels.on:
                raise Conflict(NOBODY, code="no_watcher")
            if name not in {channel.name for channel in channels.all}:
                raise Missing("no alert channel has this name", code="not_found")
            try:  # in the transaction, so that the audit row has the result; a repeat does no harm
                alert_channels.request_test(self.folder, name, self.wall_clock())
            except OSError as why:
                raise Unavailable(
                    f"the test could not be requested: {why.strerror}", code="disk"
                ) from why

        await self.record(AuditEntry(by, "test alerts", name, reason), act)

    def settings(self, name: str) -> ChannelSettingsReply:
        """Return the settings of a channel, except its secrets; raises Missing or Conflict."""
        path = self._path(name)
        if not path.is_file():
            raise Missing("no alert channel has this name", code="not_found")
        mark = _mark(path)  # read before the file, so that a change in between is noticed
        try:
            return show_settings(name, read_channel(path), mark)
        except BadSetting as error:
            raise Conflict(str(error), code="bad_file") from error

    async def save(self, by: str, wanted: ChannelRequest) -> str | None:
        """Add or change a channel; return a newly made signing secret, or None.

        Raises Conflict, Malformed, Missing or Unavailable.
        """
        previous: Mapping[str, str] | None = None
        values: dict[str, str] = {}

        def act(_: Connection, trace: Trace) -> None:
            nonlocal previous, values
            if previous is None:  # otherwise the file is written: the transaction runs again
                path = self._path(wanted.name)
                previous = _previous(path, wanted)
                values = wanted.values(previous)
                check(values)
                _write(path, values, new=wanted.new)
            before, trace.after = differences(previous, values)
            trace.before = None if wanted.new else before

        word = "add alerts" if wanted.new else "change alerts"
        await self.with_file(AuditEntry(by, word, wanted.name, wanted.reason), act)
        secret = values.get("SIGNING_SECRET")
        is_new = secret != (previous or {}).get("SIGNING_SECRET")
        return secret if is_new and (wanted.new_secret or wanted.form == "json") else None

    async def remove(self, by: str, name: str, reason: str = "") -> None:
        """Remove a channel, even if its file is broken; raises Conflict, Missing or Unavailable."""
        previous: Mapping[str, str] | None = None

        def act(_: Connection, trace: Trace) -> None:
            nonlocal previous
            if previous is None:  # otherwise the file is removed: the transaction runs again
                path = self._any_path(name)
                try:
                    previous = _lines(path)
                except Conflict:  # an unreadable file can be removed too
                    previous = {}
                try:
                    path.unlink()
                except OSError as why:
                    raise _unwritable(path, why) from why
            trace.before = differences(previous, {})[0]

        await self.with_file(AuditEntry(by, "remove alerts", name, reason), act)

    def _any_path(self, name: str) -> Path:
        """Return the file of a channel, even if the channel's name is invalid; raises Missing."""
        for path in self._config().glob(PATTERN):
            if name_of(path) == name:
                return path
        raise Missing("no alert channel has this name", code="not_found")

    def _path(self, name: str) -> Path:
        if not is_name(name):
            raise Missing("no alert channel has this name", code="not_found")
        return path_of(self._config(), name)

    def _config(self) -> Path:
        config = self.config()
        if config is None:
            raise Conflict(NO_FOLDER, code="no_folder")
        return config


def _previous(path: Path, wanted: ChannelRequest) -> Mapping[str, str]:
    """Return the current values of the channel's file; for a new channel, an empty mapping."""
    if not wanted.new:
        if wanted.mark and path.exists() and wanted.mark != _mark(path):
            text = "The channel has changed since you opened it. Open it again."
            raise Conflict(text, code="changed")
        return _lines(path)
    if len([*path.parent.glob(PATTERN)]) >= MOST:
        raise Conflict(f"There are {MOST} channels already. Remove one.", code="full")
    return {}


def _mark(path: Path) -> str:
    """Return a string that changes whenever the file changes."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


def _lines(path: Path) -> Mapping[str, str]:
    try:
        return parse_env_file(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise Missing("no alert channel has this name", code="not_found") from None
    except (OSError, UnicodeDecodeError) as why:
        raise Conflict(f"{path.name} cannot be read: {why}", code="bad_file") from why


def _write(path: Path, values: Mapping[str, str], *, new: bool) -> None:
    try:
        write_channel(path, values, new=new)
    except BadSetting as error:
        raise Malformed(str(error), code="bad_request") from error
    except FileExistsError:
        raise Conflict("A channel with this name exists already.", code="exists") from None
    except OSError as why:
        raise _unwritable(path, why) from why


def _unwritable(path: Path, why: OSError) -> Unavailable:
    return Unavailable(
        f"{path.name} cannot be written: {why.strerror}. Use svcctl alerts add.", code="disk"
    )


@frozen
class AlertRoutes:
    """The routes that list, change and test the alert channels."""

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, again=Again.NEVER, bad_json=BAD_JSON
    )
    acts: AlertActs

    @routes.row("GET", "/svc/api/DashboardAlerts", role=Role.HELPER, reply=AlertsReply, quiet=True)
    async def channels(self, call: Call) -> Answer:
        """List the alert channels with the results of their last alerts, but without their URLs."""
        return Answer(200, self.acts.read_alerts(), NO_STORE)

    @routes.row("POST", "/svc/api/DashboardAlertTest", body=TrialRequest, reply=TestRequestedReply)
    async def test(self, call: Call[TrialRequest]) -> Answer:
        """Send a test alert through one channel, even during its quiet hours."""
        await self.acts.test(staff_of(call).name, call.body.name, call.body.reason)
        return Answer(200, TEST_REQUESTED, NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardAlertChannel/<name>",
        reply=ChannelSettingsReply,
        quiet=True,
    )
    async def settings(self, call: Call, name: str) -> Answer:
        """Return the settings of a channel that the owner wants to change; secrets are left out."""
        return Answer(200, self.acts.settings(name), NO_STORE)

    @routes.row(
        "POST", "/svc/api/DashboardAlertChannel", body=ChannelRequest, reply=ChannelSavedReply
    )
    async def save(self, call: Call[ChannelRequest]) -> Answer:
        """Add or change an alert channel. Secrets can be written, but never read."""
        made = await self.acts.save(staff_of(call).name, call.body)
        reply: ChannelSavedReply = {"name": call.body.name, "signingSecret": made}
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "DELETE",
        "/svc/api/DashboardAlertChannel/<name>",
        query={"Reason": str},
        reply=AlertsReply,
    )
    async def remove(self, call: Call, name: str) -> Answer:
        """Remove an alert channel; return the remaining channels."""
        await self.acts.remove(staff_of(call).name, name, reason_of(call))
        return Answer(200, self.acts.read_alerts(), NO_STORE)
