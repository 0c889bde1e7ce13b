"""The number and the total size of each character's items."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

COUNT = """
INSERT INTO inventory_sizes (character_id, items, bytes)
SELECT character_id, count(*), sum(size) FROM (
    SELECT character_id, 32 + {text} + coalesce(length(extra), 0) AS size FROM item_stacks
    UNION ALL
    SELECT character_id, 32 + length(body) AS size FROM item_instances
) AS held GROUP BY character_id
"""


def upgrade() -> None:
    """Create the table of inventory sizes and fill it."""
    op.create_table(
        "inventory_sizes",
        sa.Column("character_id", sa.String(64), primary_key=True),
        sa.Column("items", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    text = "length(CAST(catalog_id AS BLOB))" if is_sqlite else "octet_length(catalog_id)"
    op.execute(COUNT.format(text=text))
