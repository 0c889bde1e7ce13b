"""The command line and the ``twistd`` plugin of every service.

Each service subclasses ``ServiceOptions`` and sets ``name`` and ``shape``.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from twisted.application.service import ServiceMaker
from twisted.python import usage

from svcserver.kernel.folder_owner import ForeignFolder, act_as_owner
from svcserver.kernel.foreign_text import failed_start, visible
from svcserver.kernel.settings import BadSetting, load, with_env_file
from svcserver.kernel.umask import let_nobody_else_write


def start_as_owner(
    options: usage.Options, name: str, folder: Path, *, keep_rights: bool = True
) -> None:
    """Switch to the owner of ``folder`` if root starts a service in another user's folder.

    ``keep_rights`` keeps the rights to change the firewall and to listen on ports below 1024.
    Nothing changes if ``twistd --uid`` names a user. On failure, the program exits with a one-line
    message.
    """
    if options.parent is not None and options.parent.get("uid") is not None:
        return
    try:
        actor = act_as_owner(folder, keep_rights=keep_rights)
    except ForeignFolder as error:
        raise failed_start(f"{name}: {error}") from None
    if actor is not None:
        sys.stderr.write(visible(f"{name}: started by root; {actor}") + "\n")


class ServiceOptions(usage.Options):
    """The command line and settings of a service.

    With a bad setting, the program exits with a one-line message.
    """

    name: ClassVar[str]
    shape: ClassVar[type[Any]]  # the class of the settings
    keeps_rights: ClassVar[bool] = False  # some of root's rights: see ``start_as_owner``
    settings: Any
    environ: dict[str, str]  # the file's lines too
    warnings: list[str]
    optParameters = [  # noqa: RUF012 - usage.Options wants it so
        ["env-file", None, None, "File with KEY=value lines; the environment takes precedence."]
    ]

    def postOptions(self) -> None:
        let_nobody_else_write()
        if self["env-file"] is not None:
            folder = Path(self["env-file"]).parent
            start_as_owner(self, self.name, folder, keep_rights=self.keeps_rights)
        try:
            self.environ = with_env_file(self["env-file"], os.environ)
            self.settings, self.warnings = load(self.shape, self.environ)
            self.warnings += self.check()
        except BadSetting as error:
            raise failed_start(f"{self.name}: {error}") from None

    def check(self) -> Sequence[str]:
        """Check rules that span several settings; return warnings. Raises BadSetting."""
        return ()


def plugin(name: str, about: str, module: str = "") -> ServiceMaker:
    """Return the ``twistd`` command ``svc-NAME``.

    ``module`` has Options and makeService; the default is ``svcserver.NAME.service``.
    """
    return ServiceMaker(f"svc-{name}", module or f"svcserver.{name}.service", about, f"svc-{name}")
