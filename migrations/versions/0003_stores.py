"""Stores have addresses, devices serve them and say how full they are; reads are counted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Go forward; devices register again with what is new."""
    with op.batch_alter_table("devices") as devices:
        devices.add_column(sa.Column("serves", sa.Text(), nullable=True))
        devices.add_column(sa.Column("store_key", sa.String(length=128), nullable=True))
        devices.add_column(sa.Column("room", sa.JSON(), nullable=False, server_default="{}"))
        devices.add_column(sa.Column("energy", sa.JSON(), nullable=True))
        devices.add_column(sa.Column("idle_w", sa.Double(), nullable=True))
        devices.alter_column("active_w", existing_type=sa.Double(), nullable=True)
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("held_up", sa.Text(), nullable=True))
    with op.batch_alter_table("run_totals") as totals:
        totals.add_column(
            sa.Column("joules_unknown", sa.Boolean(), nullable=False, server_default=sa.false())
        )
    op.create_table(
        "run_reads",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("path", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_run_reads_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "path", "reason", name=op.f("pk_run_reads")),
    )


def downgrade() -> None:
    """Go back."""
    op.drop_table("run_reads")
    with op.batch_alter_table("run_totals") as totals:
        totals.drop_column("joules_unknown")
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("held_up")
    op.execute("update devices set active_w = 0 where active_w is null")
    with op.batch_alter_table("devices") as devices:
        devices.alter_column("active_w", existing_type=sa.Double(), nullable=False)
        for name in ("serves", "store_key", "room", "energy", "idle_w"):
            devices.drop_column(name)
