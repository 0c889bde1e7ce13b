"""Request and reply shapes of alerts."""

from __future__ import annotations

from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.alert_channels import AlertChannel, AlertChannels, is_name
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text_where
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.wire import Reason


@spelled(pascal_case)
@frozen
class TrialWish:
    """The name of the channel that is to be tried."""

    name: Annotated[str, text_where(is_name, "a channel's name")]
    reason: Reason = ""


class AskedReply(TypedDict):
    """The test is under way; how it went is shown with the channel."""

    asked: bool


class ToldReply(TypedDict):
    """The last alert through a channel; ``why`` it did not arrive, null where it did."""

    at: Moment
    title: str
    why: str | None


class ChannelReply(TypedDict):
    """A way to tell somebody; ``about`` empty: everything, ``quiet`` like 23:00-07:00 or null."""

    name: str
    form: str
    about: list[str]
    quiet: str | None
    last: ToldReply | None


class AlertsReply(TypedDict):
    """Who is told when something is wrong; ``on`` is false where nobody sends alerts.

    ``wrong`` says of files of channels why they are none.
    """

    on: bool
    channels: list[ChannelReply]
    wrong: list[str]


ASKED: AskedReply = {"asked": True}


def show(found: AlertChannels | None) -> AlertsReply:
    """The reply with all channels."""
    if found is None:
        return {"on": False, "channels": [], "wrong": []}
    return {"on": True, "channels": [_channel(one) for one in found.all], "wrong": [*found.wrong]}


def _channel(one: AlertChannel) -> ChannelReply:
    last: ToldReply | None = None
    if one.last is not None:
        last = {"at": iso(one.last.at), "title": one.last.title, "why": one.last.why or None}
    return {
        "name": one.name,
        "form": one.form,
        "about": [*one.about],
        "quiet": one.quiet or None,
        "last": last,
    }
