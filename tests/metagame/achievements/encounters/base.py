"""The base case for tests that need players with characters."""

from svcserver.metagame.belongings.characters.rules import Character
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.documents import EMPTY
from tests.metagame.achievements.progression.base import Achieving


class WithCharacter(Achieving):
    """The base case: ``hers`` is Ann's character, ``his`` is Ben's."""

    def setUp(self) -> None:
        """Create one character for each player."""
        super().setUp()
        for name, player in (("hers", self.ann), ("his", self.ben)):
            made = Character(name, player.id, name, 0, 0, 0, EMPTY)
            self.game.ledger.run(lambda tx, made=made: SqlCharacters(tx).add(made))
