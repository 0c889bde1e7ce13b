"""The roles of accounts. Each role includes the rights of all lower roles."""

from enum import IntEnum


class Role(IntEnum):
    """A role; roles are ordered, so that ``role >= Role.MODERATOR`` tests for sufficient rights."""

    PLAYER = 0
    HELPER = 1  # reads
    MODERATOR = 2  # looks after people: bans, mutes, kicks
    OWNER = 3  # everything

    @property
    def word(self) -> str:
        """The role's name as it is stored and shown."""
        return self.name.lower()


STAFF = (Role.HELPER, Role.MODERATOR, Role.OWNER)


def role_of(word: str | None, *, is_admin: bool) -> Role:
    """Return OWNER for an admin, else HELPER or MODERATOR if named by ``word``, else PLAYER."""
    if is_admin:
        return Role.OWNER
    return next(
        (role for role in STAFF if role.word == word and role is not Role.OWNER), Role.PLAYER
    )
