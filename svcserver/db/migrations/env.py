"""Alembic's environment; ``db.upgrade`` passes it the connection."""

from alembic import context

from svcserver.db.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    transactional_ddl=False,  # the caller holds the transaction
)
context.run_migrations()
