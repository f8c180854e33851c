"""Datasets have versions, and say what their scan left out or was told to take as classes."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Go forward."""
    with op.batch_alter_table("datasets") as datasets:
        datasets.alter_column("name", existing_type=sa.String(64), type_=sa.String(80))
        datasets.alter_column("origin", existing_type=sa.String(64), type_=sa.String(80))
        datasets.add_column(sa.Column("rescan", sa.JSON(), nullable=True))
        datasets.add_column(sa.Column("notes", sa.JSON(), nullable=False, server_default="[]"))
        datasets.add_column(
            sa.Column("as_classes", sa.Boolean(), nullable=False, server_default=sa.false())
        )


def downgrade() -> None:
    """Go back; earlier versions are forgotten, and runs over them lose their dataset."""
    op.execute(
        "UPDATE runs SET dataset_id = NULL WHERE dataset_id IN "
        "(SELECT id FROM datasets WHERE name LIKE '%@%')"
    )
    op.execute("DELETE FROM datasets WHERE name LIKE '%@%'")
    op.execute("UPDATE datasets SET origin = substr(origin, 1, 64)")
    with op.batch_alter_table("datasets") as datasets:
        for name in ("rescan", "notes", "as_classes"):
            datasets.drop_column(name)
        datasets.alter_column("origin", existing_type=sa.String(80), type_=sa.String(64))
        datasets.alter_column("name", existing_type=sa.String(80), type_=sa.String(64))
