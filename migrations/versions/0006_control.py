"""Runs have limits of their own and may be tried again; devices can be drained.

Epochs know which prong made what was consumed, and bad samples are found by their number.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_LIMITS = ("cpu_window", "cpu_store_bytes", "csd_store_bytes")


def upgrade() -> None:
    """Go forward."""
    with op.batch_alter_table("runs") as runs:
        for name in _LIMITS:
            runs.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
        runs.add_column(sa.Column("retry_of", sa.Uuid(), nullable=True))
    with op.batch_alter_table("devices") as devices:
        devices.add_column(sa.Column("drained_at", sa.Double(), nullable=True))
    with op.batch_alter_table("epochs") as epochs:
        epochs.add_column(
            sa.Column("consumed_csd", sa.BigInteger(), nullable=False, server_default="0")
        )
    op.execute(
        "UPDATE epochs SET consumed_csd = (SELECT count(*) FROM batches "
        "WHERE batches.run_id = epochs.run_id AND batches.epoch = epochs.number "
        "AND batches.prong = 'csd' AND batches.position < epochs.consumed)"
    )
    op.create_index("bad_samples_of_a_run", "bad_samples", ["run_id", "sample"])


def downgrade() -> None:
    """Go back; limits are those of the server again, and drained devices work."""
    op.drop_index("bad_samples_of_a_run", "bad_samples")
    with op.batch_alter_table("epochs") as epochs:
        epochs.drop_column("consumed_csd")
    with op.batch_alter_table("devices") as devices:
        devices.drop_column("drained_at")
    with op.batch_alter_table("runs") as runs:
        for name in (*_LIMITS, "retry_of"):
            runs.drop_column(name)
