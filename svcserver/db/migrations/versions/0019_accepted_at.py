"""The time when a friend request was accepted."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column ``accepted_at``, which is empty for older friendships."""
    op.add_column("friendships", sa.Column("accepted_at", sa.BigInteger, nullable=True))
