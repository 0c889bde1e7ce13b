"""The switch from root to the user who owns a host's folder.

If root created files in another user's folder, that user's next backup or start would fail. And a
link in the folder could redirect root's writes. So the process becomes that user before it touches
a file.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from svcserver.kernel.rights import keep_over_change_of_user, reduce_rights

_CAPABILITIES = (10, 12)  # CAP_NET_BIND_SERVICE, CAP_NET_ADMIN


class ForeignFolder(Exception):
    """The error if root cannot safely become the folder's owner; ``str()`` names the remedy."""


@frozen
class Actor:
    """The user to which a root process has switched, and the folder that this user owns."""

    name: str
    folder: Path

    def __str__(self) -> str:
        return f"it runs as {self.name}, who owns {self.folder}"


def act_as_owner(folder: Path, *, keep_rights: bool = True) -> Actor | None:
    """Switch permanently from root to the user who owns ``folder``.

    ``keep_rights`` keeps the rights to change the firewall and to listen on ports below 1024.
    Returns None, and changes nothing, if the process does not run as root, if root owns the folder,
    or if the folder is unreadable. Raises ForeignFolder if root cannot become the owner, if the
    owner cannot run this program, or if a symbolic link of another user leads to the folder.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return None
    folder = folder.absolute()
    try:
        owner = folder.stat()
        _refuse_links(folder, owner.st_uid)
    except OSError:
        return None  # the command itself reports an unreadable folder
    if owner.st_uid == 0:
        return None
    try:
        name = _become(owner.st_uid, owner.st_gid, _CAPABILITIES if keep_rights else ())
    except OSError as error:
        raise ForeignFolder(
            f"root cannot become the user who owns {folder}: {error.strerror}; "
            "run this as that user"
        ) from None
    program = Path(__file__)
    if not (os.access(program, os.R_OK) and os.access(sys.executable, os.X_OK)):
        raise ForeignFolder(
            f"{folder} belongs to {name}, who may not run the program in {program.parents[1]}; "
            "install the program where every user may read it, such as /opt"
        )
    return Actor(name, folder)


def _refuse_links(folder: Path, owner: int) -> None:
    for path in (folder, *folder.parents):
        status = path.lstat()
        if path.is_symlink() and status.st_uid not in (0, owner):
            raise ForeignFolder(
                f"{path} is a link of another user ({_user(status.st_uid, 0)[0]}); "
                "use the folder that the link leads to instead"
            )


def _become(uid: int, gid: int, rights: Sequence[int]) -> str:
    """Switch this process to the user's identity; return the user's name."""
    name, group, home = _user(uid, gid)
    keep_over_change_of_user()
    if home:
        os.initgroups(name, group)
    else:
        os.setgroups([])
    os.setgid(group)
    os.setuid(uid)
    reduce_rights(rights)
    os.environ.update({"HOME": home or "/", "USER": name, "LOGNAME": name})
    return name


def _user(uid: int, gid: int) -> tuple[str, int, str]:
    """Return a user's name, group and home.

    For a user without an entry in the user database, the name is the number, the group is ``gid``,
    and the home is empty.
    """
    import pwd

    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return str(uid), gid, ""
    return user.pw_name, user.pw_gid, user.pw_dir
