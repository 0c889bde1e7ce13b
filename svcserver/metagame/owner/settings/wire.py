"""Request and reply shapes of the settings page."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.shapes import pascal_case, plain_text, spelled
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.owner.settings.catalogue import SettingRow, SettingsCatalogue, ShownSection


@spelled(pascal_case)
@frozen
class SettingRequest:
    """A setting and its new value; null restores the env file's value."""

    name: Annotated[str, plain_text(1, 64)]
    value: Annotated[str, plain_text(0, 1024)] | None = None
    reason: Reason = ""


class SettingEntry(TypedDict):
    """A setting; ``value`` is null if the setting is secret, or if its default applies.

    ``source`` is "default", "file", "environment", "page" (an owner changed the setting at
    run time) or "command" (an owner ran svcctl registration). A ``live`` setting may be changed
    at run time. If ``options`` is not empty, the new value must be one of these options.
    ``restart`` means that the file has a new value, which takes effect after a restart.
    """

    name: str
    value: str | None
    default: str
    allowed: str
    meaning: str
    source: str
    isSecret: bool
    live: bool
    options: list[str]
    restart: bool


class SettingSectionEntry(TypedDict):
    """A group of settings from one file; ``settings`` is null if the file cannot be read.

    If ``restart`` is true, the file has changed since the service started, but the host does not
    know which settings have changed.
    """

    title: str
    component: str
    file: str
    settings: list[SettingEntry] | None
    restart: bool


class SettingsReply(TypedDict):
    """Every setting of the host.

    ``stack`` says whether svc-stack runs the services. Without svc-stack, only the metagame's
    environment is known, so the environment of another service may override a value shown here.
    """

    stack: bool
    sections: list[SettingSectionEntry]


class SettingReply(TypedDict):
    """The current value of the changed setting."""

    name: str
    value: str


async def read_settings_reply(catalogue: SettingsCatalogue) -> SettingsReply:
    """Return the reply with the current values of all settings."""
    return show_sections(await catalogue.rows(), stack=catalogue.has_stack())


def show_sections(sections: Iterable[ShownSection], *, stack: bool) -> SettingsReply:
    """Return the reply with every setting."""
    return {
        "stack": stack,
        "sections": [
            {
                "title": section.about.title,
                "component": section.about.component,
                "file": section.file,
                "settings": None if section.rows is None else [*map(_entry, section.rows)],
                "restart": section.restart,
            }
            for section in sections
        ],
    }


def _entry(row: SettingRow) -> SettingEntry:
    about = row.about
    return {
        "name": about.name,
        "value": row.value,
        "default": about.default,
        "allowed": about.allowed,
        "meaning": about.meaning,
        "source": row.source,
        "isSecret": about.secret,
        "live": row.live,
        "options": [*row.options],
        "restart": row.restart,
    }
