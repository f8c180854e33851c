"""Devices say how far their host's clock is ahead."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Go forward."""
    with op.batch_alter_table("devices") as devices:
        devices.add_column(sa.Column("clock_ahead_s", sa.Double(), nullable=True))


def downgrade() -> None:
    """Go back."""
    with op.batch_alter_table("devices") as devices:
        devices.drop_column("clock_ahead_s")
