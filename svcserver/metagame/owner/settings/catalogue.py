"""All settings of the host, with meanings from the documentation and values from the env files.

``data/settings.json`` is generated from docs/owners/configuration.md by ``python -m
docs.variables``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from svcserver.kernel import datafiles, host_state
from svcserver.kernel.host_state import STACK, HostState
from svcserver.kernel.redaction import redact
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.owner.settings import rules
from svcserver.metagame.owner.settings.acts import LiveSettings

MAX_FILE = 64 * 1024  # bytes
METAGAME = "metagame"
_IN_URL = re.compile(r"(?<=://).*@")


@frozen
class SettingDescription:
    """The documentation of a setting.

    If ``empty`` is false, a blank value means the default.
    """

    name: str
    default: str
    allowed: str
    meaning: str
    secret: bool
    empty: bool = False


@frozen
class SettingSection:
    """A group of settings of one component."""

    title: str
    component: str
    settings: tuple[SettingDescription, ...]


@frozen
class ShownSection:
    """A section on the page.

    ``rows`` is None if the section's file cannot be read. If ``restart`` is true, the file has
    changed since the service started, but the host does not know which settings have changed.
    """

    about: SettingSection
    file: str
    rows: list[SettingRow] | None
    restart: bool = False


@frozen
class SettingRow:
    """A setting on the page.

    ``source`` is default, file, environment, page or command. ``restart`` means that the env file
    has a new value, which takes effect after a restart.
    """

    about: SettingDescription
    value: str | None
    source: str
    live: bool = False
    options: tuple[str, ...] = ()
    restart: bool = False


def described() -> tuple[SettingSection, ...]:
    """Return all sections; raises BadData."""
    return datafiles.load(
        "svcserver.metagame.owner.settings",
        "settings.json",
        lambda data: tuple(
            SettingSection(
                section["title"],
                section["component"],
                tuple(SettingDescription(**setting) for setting in section["settings"]),
            )
            for section in data["sections"]
        ),
    )


@define(eq=False)
class SettingsCatalogue:
    """The source of the settings page.

    ``folder`` has the env files; it is None if the metagame has no env file. ``data`` is the
    services' working folder. ``has_stack`` returns whether svc-stack runs the services.
    """

    live: LiveSettings
    has_stack: Callable[[], bool]
    sections: tuple[SettingSection, ...] = field(factory=described)
    folder: Path | None = None
    data: Path = field(factory=Path.cwd)
    _environ: Mapping[str, str] = field(factory=dict, init=False, repr=False)
    _in_file: Mapping[str, str] = field(factory=dict, init=False, repr=False)

    def attach(self, env_file: str | None, environ: Mapping[str, str]) -> None:
        """Store the settings with which the metagame started.

        ``env_file`` is the path of the metagame's env file, or None. ``environ`` has the settings
        from this file and from the environment variables, which take precedence over the file.
        """
        self._environ = environ
        if env_file is not None:
            self.folder = Path(env_file).parent
            at_start = _read(Path(env_file)) or {}
            self._in_file = {
                name: value for name, value in at_start.items() if environ.get(name) == value
            }

    async def rows(self) -> list[ShownSection]:
        """Return the sections to show on the page."""
        mode = await self.live.registration.mode()
        state = host_state.read(self.data, self.live.audit.wall_clock()) or HostState(0.0)
        return [*self._rows(mode, state)]

    def _rows(self, mode: str | None, state: HostState) -> Iterator[ShownSection]:
        files: dict[str, Mapping[str, str] | None] = {}
        for section in self.sections:
            name = section.component
            path = Path(f"{name}.env") if self.folder is None else self.folder / f"{name}.env"
            overridden = state.environment if name == STACK else {}
            if self.folder is not None and name not in files and (path.is_file() or overridden):
                files[name] = _read(path) if path.is_file() else {}
            if name == METAGAME:
                now = files.get(name)
                rows = [self._metagame_row(about, now, mode) for about in section.settings]
                yield ShownSection(section, str(path), rows)
            elif name in files:
                values, changed = files[name], state.changed.get(name, ())
                known = changed or ()
                yield ShownSection(
                    section,
                    str(path),
                    None
                    if values is None
                    else [
                        _row(about, overridden[about.name], "environment")
                        if about.name in overridden
                        else _row(about, values.get(about.name), restart=about.name in known)
                        for about in section.settings
                    ],
                    changed is None,
                )

    def _metagame_row(
        self, about: SettingDescription, now: Mapping[str, str] | None, mode: str | None
    ) -> SettingRow:
        name = about.name
        started = self._in_file.get(name)
        source = "file" if started is not None else "environment"
        if name not in self._environ:
            source = "default"
        edited = now is not None and source != "environment" and now.get(name) != started
        if name not in rules.LIVE:
            return _row(about, self._environ.get(name), source, restart=edited)
        value = self.live.value(name)
        if self.live.is_changed(name):
            source, edited = "page", False
        if name == rules.REGISTRATION_MODE and mode is not None and mode != value:
            value, source = mode, "command"
        return SettingRow(about, value, source, True, rules.options(name), edited)


def _row(
    about: SettingDescription, value: str | None, source: str = "file", *, restart: bool = False
) -> SettingRow:
    if value is not None and not value.strip() and not about.empty:
        value = None
    if value is None and source == "file":
        source = "default"
    if value is None:
        return SettingRow(about, None, source, restart=restart)
    shown = None if about.secret else without_credentials(value)
    return SettingRow(about, shown, source, restart=restart)


def without_credentials(value: str) -> str:
    """Return a value without the password of a URL and without text that looks like a secret."""
    hidden = _IN_URL.sub("…@", value)
    if hidden != value or "://" in value:
        hidden = hidden.partition("?")[0]  # a query may hold a password, too
    return redact(hidden)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            return dict(parse_env_file(file.read(MAX_FILE).decode("utf-8-sig")))
    except (OSError, UnicodeDecodeError):
        return None
