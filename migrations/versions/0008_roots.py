"""Folders below which datasets may be read can be added while the server runs."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Go forward."""
    op.create_table(
        "dataset_roots",
        sa.Column("path", sa.Text(), primary_key=True),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.Column("added_by", sa.String(64), nullable=False),
    )


def downgrade() -> None:
    """Go back; only the folders of the settings are allowed then."""
    op.drop_table("dataset_roots")
