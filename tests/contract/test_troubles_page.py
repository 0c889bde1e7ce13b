"""Every sentence that a player may read stands in the players' page of troubles, and no other;
the owners' page quotes none that no launcher says."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge import invite
from svcserver.launcher import keystore, words

ROOT = Path(__file__).parents[2]
SHORTEST = 12  # characters that a reader can look a sentence up by
OTHERS = {"Your connection is not private"}  # a browser's
NOT_READ = {"MASTERY"}  # the beginning of an id


def sentences() -> dict[str, str]:
    """What the launcher says, by the name in the code; a dot stands for what is filled in."""
    texts = {
        name: value
        for name, value in vars(words).items()
        if name.isupper() and isinstance(value, str) and name not in NOT_READ
    }
    return {name: re.sub(r"\{\w+\}", "…", text) for name, text in texts.items()}


def others() -> str:
    """What is said elsewhere: by the page's scripts, the key store, and of an invite."""
    scripts = sorted((ROOT / "svcserver/launcher/static").glob("*.js"))
    of_invites = (f"{text[:1].upper()}{text[1:]}" for text in invite._WORDS.values())
    texts = [*(one.read_text(encoding="utf-8") for one in scripts), *of_invites]
    return "\n".join([*texts, keystore.IN_BOTH, keystore.AS_ASKED, keystore.IN_FILE])


def quoted() -> list[str]:
    """What the page quotes in the first column of its tables."""
    text = (ROOT / "docs/players/troubles.md").read_text(encoding="utf-8")
    firsts = re.findall(r"^\| (?!you read)(.*?) \| ", text, re.MULTILINE)
    return [one for first in firsts for one in re.findall(r"\*([^*]+)\*", first)]


class TroublesTests(SynchronousTestCase):
    def test_every_sentence_can_be_looked_up(self) -> None:
        found = quoted()
        self.assertTrue(all(len(one) >= SHORTEST for one in found), found)
        self.assertEqual(len(set(found)), len(found))
        missing = [text for text in sentences().values() if not any(map(text.startswith, found))]
        self.assertEqual(missing, [])

    def test_no_sentence_stands_there_that_nobody_says(self) -> None:
        said, elsewhere = sentences().values(), others()
        unknown = [
            one
            for one in quoted()
            if not any(text.startswith(one) for text in said) and one not in elsewhere
        ]
        self.assertEqual(set(unknown), OTHERS)

    def test_the_owners_page_quotes_what_the_launcher_says(self) -> None:
        text = (ROOT / "docs/owners/troubleshoot.md").read_text(encoding="utf-8")
        found = re.findall(r"launcher says \*([^*]+)\*", text)
        self.assertGreater(len(found), 3)
        said = sentences().values()
        self.assertEqual([one for one in found if not any(s.startswith(one) for s in said)], [])
