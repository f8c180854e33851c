"""Figures tell what trainers received in measured time; of earlier runs that is not known."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_TABLES = ("rollups", "tallies")


def _columns() -> list[sa.Column[int] | sa.Column[float]]:
    return [
        sa.Column("measured_images", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("measured_s", sa.Double(), nullable=False, server_default="0"),
    ]


def upgrade() -> None:
    """Go forward."""
    for table in _TABLES:
        with op.batch_alter_table(table) as changed:
            for column in _columns():
                changed.add_column(column)


def downgrade() -> None:
    """Go back; what was received from either prong is one again."""
    for table in _TABLES:
        with op.batch_alter_table(table) as changed:
            for column in _columns():
                changed.drop_column(column.name)
