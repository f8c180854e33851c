"""Stages, stalls and energy are told apart, by device and epoch."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_COUNTS = ("batches", "images", "nbytes", "fetched_bytes")
_STAGES = ("queue_s", "fetch_s", "decode_s", "transform_s", "write_s")
_SPENT = ("training", "storage", "network", "decode", "csd", "transfer", "scheduling", "startup")
_SECONDS = (
    "memory_byte_s",
    "joules_modelled",
    "joules_measured",
    *_STAGES,
    "read_s",
    "transfer_s",
    *(f"spent_{what}_s" for what in _SPENT),
)
_KNOWN = ("batches", "images", "nbytes", "busy_s", "cpu_s")


def upgrade() -> None:
    """Go forward; what trainers waited for was not known before, so their seconds are forgotten."""
    with op.batch_alter_table("batches") as batches:
        for name in _STAGES:
            batches.add_column(_sum(name))
        for name in ("fetched_bytes", "peak_bytes"):
            batches.add_column(_sum(name, sa.BigInteger()))
    with op.batch_alter_table("rollups") as rollups:
        rollups.add_column(_sum("fetched_bytes", sa.BigInteger()))
        for name in _SECONDS:
            rollups.add_column(_sum(name))
    op.execute("update rollups set joules_modelled = coalesce(joules, 0)")
    with op.batch_alter_table("rollups") as rollups:
        for name in ("joules", "waited_s", "trained_s"):
            rollups.drop_column(name)
        for name in _KNOWN:
            rollups.alter_column(
                name, existing_type=_kind(name), existing_nullable=False, server_default="0"
            )
        rollups.create_index("ix_rollups_period_s", ["period_s", "at"])
    _make_tallies()
    op.execute(
        "insert into tallies (run_id, epoch, source, device, first_at, last_at, images, "
        "joules_modelled, emulated, joules_unknown) select run_id, -1, source, '', first_at, "
        "last_at, images, coalesce(joules, 0), emulated, joules_unknown from run_totals"
    )
    op.drop_table("run_totals")
    _make_host_energy()
    op.create_table(
        "run_traces",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _of_run("run_traces"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_traces")),
    )


def downgrade() -> None:
    """Go back; only what was known before is kept."""
    op.drop_table("run_traces")
    op.drop_table("host_energy")
    op.create_table(
        "run_totals",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("images", sa.BigInteger(), nullable=False),
        sa.Column("joules", sa.Double(), nullable=True),
        sa.Column("waited_s", sa.Double(), nullable=False),
        sa.Column("trained_s", sa.Double(), nullable=False),
        sa.Column("emulated", sa.Boolean(), nullable=False),
        sa.Column("joules_unknown", sa.Boolean(), server_default=sa.false(), nullable=False),
        _of_run("run_totals"),
        sa.PrimaryKeyConstraint("run_id", "source", name=op.f("pk_run_totals")),
    )
    op.execute(
        "insert into run_totals select run_id, source, min(first_at), max(last_at), sum(images), "
        "sum(joules_modelled + joules_measured), 0, sum(spent_training_s), "
        f"{_any('emulated')}, {_any('joules_unknown')} from tallies "
        "where source in ('cpu', 'csd', 'trainer') group by run_id, source"
    )
    op.drop_table("tallies")
    op.execute("delete from rollups where period_s <> 1 or source not in ('cpu', 'csd', 'trainer')")
    with op.batch_alter_table("rollups") as rollups:
        rollups.drop_index("ix_rollups_period_s")
        rollups.add_column(sa.Column("joules", sa.Double(), nullable=True))
        for name in ("waited_s", "trained_s"):
            rollups.add_column(_sum(name))
    op.execute("update rollups set joules = joules_modelled + joules_measured")
    with op.batch_alter_table("rollups") as rollups:
        for name in ("fetched_bytes", *_SECONDS):
            rollups.drop_column(name)
        for name in (*_KNOWN, "waited_s", "trained_s"):
            rollups.alter_column(
                name, existing_type=_kind(name), existing_nullable=False, server_default=None
            )
    with op.batch_alter_table("batches") as batches:
        for name in (*_STAGES, "fetched_bytes", "peak_bytes"):
            batches.drop_column(name)


def _make_tallies() -> None:
    op.create_table(
        "tallies",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("device", sa.String(length=255), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        *(_sum(name, sa.BigInteger()) for name in (*_COUNTS, "peak_bytes")),
        *(_sum(name) for name in ("busy_s", "cpu_s", *_SECONDS)),
        *(
            sa.Column(name, sa.Boolean(), server_default=sa.false(), nullable=False)
            for name in ("emulated", "joules_unknown")
        ),
        _of_run("tallies"),
        sa.PrimaryKeyConstraint("run_id", "epoch", "source", "device", name=op.f("pk_tallies")),
    )


def _make_host_energy() -> None:
    op.create_table(
        "host_energy",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("domain", sa.String(length=16), nullable=False),
        sa.Column("provenance", sa.String(length=16), nullable=False),
        sa.Column("method", sa.String(length=400), nullable=False),
        *(_sum(name) for name in ("period_s", "joules", "idle_j", "runs_j", "other_j")),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("host", "name", name=op.f("pk_host_energy")),
    )


def _kind(name: str) -> sa.types.TypeEngine[Any]:
    return sa.BigInteger() if name in _COUNTS else sa.Double()


def _sum(name: str, kind: sa.types.TypeEngine[int] | None = None) -> sa.Column[float]:
    return sa.Column(name, kind or sa.Double(), server_default="0", nullable=False)


def _of_run(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_run_id_runs")
    return sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=name, ondelete="CASCADE")


def _any(mark: str) -> str:
    """Whether a mark is set anywhere in a group."""
    postgres = op.get_bind().dialect.name == "postgresql"
    return f"bool_or({mark})" if postgres else f"max({mark})"
