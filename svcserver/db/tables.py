"""The SQLAlchemy MetaData to which each feature adds its tables."""

from collections.abc import Iterator

from sqlalchemy import BigInteger, Integer, MetaData

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""The type of auto-increment primary keys; SQLite only numbers plain INTEGER keys."""

ACCOUNT = {"account": True}
"""The ``info=`` of a column that holds an account's id but is not called ``account_id``.

Each row is exported and deleted together with its account.
"""

CHUNK = 500  # ids per statement: databases limit the number of parameters


def chunks(ids: list[str]) -> Iterator[list[str]]:
    """Yield the ids in lists short enough for one statement."""
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
