"""Datasets are packed from others; runs and remembered paces know the storage form."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Go forward; paces are measured anew."""
    with op.batch_alter_table("datasets") as datasets:
        datasets.add_column(sa.Column("origin", sa.String(length=64), nullable=True))
        datasets.add_column(sa.Column("origin_id", sa.Uuid(), nullable=True))
        datasets.add_column(sa.Column("packing", sa.JSON(), nullable=True))
        datasets.add_column(sa.Column("packed_with", sa.JSON(), nullable=True))
        datasets.create_index(datasets.f("ix_datasets_origin_id"), ["origin_id"])
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("storage", sa.String(length=16), nullable=True))
    op.execute(
        "update runs set storage = "
        "(select datasets.kind from datasets where datasets.id = runs.dataset_id)"
    )
    _make_calibrations("dataset_version", "storage", "pipeline_hash", "device")


def downgrade() -> None:
    """Go back; packed datasets and what ran on them cannot be read by what was there before."""
    op.execute("delete from datasets where kind = 'packed' or packing is not null")
    op.execute("update runs set dataset_id = null where storage = 'packed'")
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("storage")
    with op.batch_alter_table("datasets") as datasets:
        datasets.drop_index(datasets.f("ix_datasets_origin_id"))
        for name in ("origin", "origin_id", "packing", "packed_with"):
            datasets.drop_column(name)
    _make_calibrations("dataset_version", "pipeline_hash", "device")


def _make_calibrations(*keys: str) -> None:
    """Make the table anew: it only saves the next run some measuring."""
    lengths = dict.fromkeys(keys, 64) | {"storage": 16}
    columns = [sa.Column(key, sa.String(length=lengths[key]), nullable=False) for key in keys]
    op.drop_table("calibrations")
    op.create_table(
        "calibrations",
        *columns,
        sa.Column("prong", sa.String(length=8), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("sample_s", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint(*keys, name=op.f("pk_calibrations")),
    )
