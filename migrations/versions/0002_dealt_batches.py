"""Batches are dealt in one order, leases may be raced, certificates are sealed and chained."""

import time
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Go forward; runs that were under way are ended: what was dealt of them is not known."""
    ended = sa.text(
        "update runs set state = 'cancelled', reason = 'it was under way during an upgrade', "
        "ended_at = :now where state in ('created', 'running', 'paused')"
    )
    op.get_bind().execute(ended, {"now": time.time()})
    for table in ("batches", "epochs"):
        op.execute(f"delete from {table}")
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("reorder_window", sa.BigInteger(), nullable=True))
        runs.add_column(
            sa.Column("calibration", sa.BigInteger(), nullable=False, server_default="10")
        )
        runs.add_column(
            sa.Column("tail", sa.String(length=16), nullable=False, server_default="short")
        )
        runs.add_column(sa.Column("replay_of", sa.Uuid(), nullable=True))
        runs.add_column(sa.Column("tokens", sa.BigInteger(), nullable=False, server_default="1"))
    with op.batch_alter_table("epochs") as epochs:
        epochs.drop_column("split")
        for name in ("segments", "settled", "acknowledged"):
            epochs.add_column(sa.Column(name, sa.JSON(), nullable=False))
        for name in ("dealt_head", "dealt_tail"):
            epochs.add_column(sa.Column(name, sa.BigInteger(), nullable=False))
    with op.batch_alter_table("batches") as batches:
        batches.drop_index("ix_batches_unconsumed")
        for name in ("rank", "step", "consumed_at"):
            batches.drop_column(name)
        batches.add_column(sa.Column("kills", sa.BigInteger(), nullable=False))
        batches.add_column(sa.Column("position", sa.BigInteger(), nullable=True))
        batches.add_column(sa.Column("from_tail", sa.Boolean(), nullable=False))
        batches.add_column(sa.Column("isolated", sa.Boolean(), nullable=False))
        batches.create_index("ix_batches_position", ["run_id", "epoch", "position"])
    op.create_table(
        "certificates",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("sealed_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
            name=op.f("fk_certificates_run_id_runs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", "epoch", name=op.f("pk_certificates")),
    )
    op.create_table(
        "calibrations",
        sa.Column("dataset_version", sa.String(length=64), nullable=False),
        sa.Column("pipeline_hash", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=64), nullable=False),
        sa.Column("prong", sa.String(length=8), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("sample_s", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint(
            "dataset_version", "pipeline_hash", "device", name=op.f("pk_calibrations")
        ),
    )


def downgrade() -> None:
    """Go back; what was recorded of epochs is lost."""
    op.drop_table("calibrations")
    op.drop_table("certificates")
    for table in ("batches", "epochs"):
        op.execute(f"delete from {table}")
    with op.batch_alter_table("batches") as batches:
        batches.drop_index("ix_batches_position")
        for name in ("kills", "position", "from_tail", "isolated"):
            batches.drop_column(name)
        batches.add_column(sa.Column("rank", sa.BigInteger(), nullable=True))
        batches.add_column(sa.Column("step", sa.BigInteger(), nullable=True))
        batches.add_column(sa.Column("consumed_at", sa.Double(), nullable=True))
        batches.create_index("ix_batches_unconsumed", ["run_id", "epoch", "state"])
    with op.batch_alter_table("epochs") as epochs:
        for name in ("segments", "settled", "acknowledged", "dealt_head", "dealt_tail"):
            epochs.drop_column(name)
        epochs.add_column(sa.Column("split", sa.BigInteger(), nullable=True))
    with op.batch_alter_table("runs") as runs:
        for name in ("reorder_window", "calibration", "tail", "replay_of", "tokens"):
            runs.drop_column(name)
