"""The accepted values of DATABASE_URL, and the content of its error messages."""

import string

from sqlalchemy.exc import SQLAlchemyError
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.bundle import password_of, without_user
from svcserver.db.engine import database_url, make_engine


class DatabaseUrlTests(SynchronousTestCase):
    def test_both_spellings_of_postgresql_mean_the_same(self) -> None:
        short, long = (
            database_url(f"{scheme}://svc:secret@db.example/svc")
            for scheme in ("postgresql", "postgresql+psycopg")
        )
        self.assertEqual(short, long)

    def test_a_refusal_shows_no_part_of_an_unescaped_password(self) -> None:
        for url in (
            "postgresql://svc:SEC/RET",
            "postgresql://svc:SEC@RET/XYZ@db.example/svc",
            "postgresql://svc:SEC@RET@db.example/svc",
            "postgresql://svc:SEC@RET?XYZ@db.example/svc",
            "postgresql://svc:SEC@RET:5432/svc?XYZ@db.example",
            "postgresql://SEC/RET@db.example/svc",
            "postgresql://svc:SEC/RET@db.example:SEC/svc",
            "postgresql://svc:77777/RET",
            "mysql://svc:SEC/RET@db.example/svc",
        ):
            why = self.assertRaises(ValueError, database_url, url)
            for part in ("SEC", "RET", "XYZ", "77777"):
                self.assertNotIn(part, str(why))

    def test_no_character_of_a_password_shows_it_when_connecting(self) -> None:
        for character in string.punctuation + " \té":
            url = f"postgresql://svc:SEC{character}RET@127.0.0.1:1/svc"
            try:
                shown = str(
                    self.assertRaises(SQLAlchemyError, make_engine(database_url(url)).connect)
                )
            except ValueError as why:
                shown = str(why)
            for part in ("SEC", "RET"):
                self.assertNotIn(part, shown, character)

    def test_a_bundle_hides_a_password_with_an_unescaped_slash(self) -> None:
        url = "postgresql://svc:SEC/RET@db.example/svc"
        self.assertEqual(password_of(url), "SEC/RET")
        self.assertEqual(without_user(url), "postgresql://<redacted>@db.example/svc")
