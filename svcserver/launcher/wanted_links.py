"""Whether the player wants ``svc:`` links to open the launcher: remembered, as it is asked once."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from svcserver.kernel import json
from svcserver.launcher.private_files import write_private

FILE = "links.json"


@frozen
class WantedLinks:
    """The choice, kept in the folder ``state``."""

    state: Path

    def wanted(self) -> bool:
        """True unless the player has said no."""
        try:
            said = json.parse((self.state / FILE).read_bytes())
        except (OSError, json.BadJson):
            return True
        return not (isinstance(said, dict) and said.get("wanted") is False)

    def keep(self, *, wanted: bool) -> None:
        """Remember it; raises OSError."""
        write_private(self.state / FILE, json.dump({"wanted": wanted}))
