"""The host that ``svcctl doctor`` examines, and a finding about it."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from attrs import define, field, frozen

from svcserver.allowlist.settings import AllowlistSettings
from svcserver.chat.settings import ChatSettings
from svcserver.content.settings import ContentSettings
from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.host import Host
from svcserver.deploy.settings import DeploySettings
from svcserver.gateway.settings import AllowlistClientSettings, GatewaySettings
from svcserver.metagame.settings import MetagameSettings
from svcserver.relay.settings import RelaySettings


class Level(Enum):
    """The severity of a finding."""

    WRONG = "wrong"  # something does not work, or not as safely as it must
    NOTE = "note"  # a placeholder of ``svcctl init``, or a choice worth knowing


@frozen
class Finding:
    """A problem with its fix, printed as one line."""

    component: str
    what: str
    cure: str
    level: Level = Level.WRONG
    stops_play: bool = False  # nobody can play until this note's fix is applied

    @property
    def urgency(self) -> int:
        """The sort key of the finding: the more urgent the finding, the lower the key."""
        return 0 if self.level is Level.WRONG else 1 if self.stops_play else 2

    def __str__(self) -> str:
        return f"{self.level.value:5}  {self.component}: {self.what}; {self.cure}"

    @classmethod
    def from_message(cls, component: str, line: str, otherwise: str) -> Finding:
        """Split a message into a fault and a fix, at ``; `` or after the first sentence.

        ``otherwise`` is the fix if the message contains no fix. So a setting's rule must be a
        single sentence without ``; ``.
        """
        what, *cure = re.split(r"; |\. (?=[A-Z])", line, maxsplit=1)
        return cls(component, what.removesuffix("."), cure[0] if cure else otherwise)

    @classmethod
    def note(cls, component: str, what: str, cure: str, *, stops_play: bool = False) -> Finding:
        """Return a NOTE; set ``stops_play`` if nobody can play until the problem is fixed."""
        return cls(component, what, cure, Level.NOTE, stops_play)


@define
class Case:
    """A host with the settings of its components, for the checks.

    A component's settings are None if the component is not used or its settings are invalid.
    """

    host: Host
    folder: Path
    machine: Machine
    metagame: MetagameSettings | None = None
    chat: ChatSettings | None = None
    deploy: DeploySettings | None = None
    content: ContentSettings | None = None
    gateway: GatewaySettings | None = None
    gateway_allowlist: AllowlistClientSettings | None = None
    allowlist: AllowlistSettings | None = None
    relay: RelaySettings | None = None
    variables: dict[str, dict[str, str]] = field(factory=dict, repr=False)

    def file(self, component: str) -> Path:
        """Return the path of a component's env file, even if there is no such file."""
        return self.folder / f"{component}.env"
