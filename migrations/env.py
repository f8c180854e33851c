"""Runs migrations on the engine it is given, or on the one that the settings name."""

from alembic import context

from ddlp.core.settings import load_settings
from ddlp.server.database import connect
from ddlp.server.models import Base


def run() -> None:
    """Run the migrations that were asked for."""
    engine = context.config.attributes.get("engine") or connect(load_settings().database)
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            render_as_batch=connection.dialect.name == "sqlite",
            compare_type=True,
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()


run()
