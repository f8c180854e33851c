"""Runs know their training sessions, may be open-ended, and take over from each other.

Short batches are delivered last from here on, so an epoch that is under way cannot be finished by
the new rules: its run has failed, and says what to do.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_REASON = (
    "DDLP was upgraded while it was under way, and short batches are delivered last since then; "
    "start it again with: ddlp run retry"
)


def upgrade() -> None:
    """Go forward."""
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("epochs", existing_type=sa.Integer(), nullable=True)
        for name, default in (("fixed_ranks", sa.false()), ("left", sa.false())):
            runs.add_column(sa.Column(name, sa.Boolean(), nullable=False, server_default=default))
        runs.add_column(
            sa.Column("reshuffle", sa.Boolean(), nullable=False, server_default=sa.true())
        )
        runs.add_column(sa.Column("trainers", sa.JSON(), nullable=False, server_default="{}"))
        runs.add_column(sa.Column("checkpoint", sa.JSON(), nullable=True))
    with op.batch_alter_table("epochs") as epochs:
        epochs.add_column(sa.Column("short", sa.BigInteger(), nullable=False, server_default="0"))
        epochs.add_column(sa.Column("origin", sa.JSON(), nullable=True))
        epochs.add_column(sa.Column("sessions", sa.JSON(), nullable=False, server_default="[]"))
    under_way = (
        "SELECT run_id FROM epochs WHERE state = 'open'",
        "state IN ('created', 'running', 'paused')",
    )
    op.execute(
        sa.text(
            "UPDATE runs SET state = 'failed', reason = :reason, ended_at = created_at "
            f"WHERE {under_way[1]} AND id IN ({under_way[0]})"
        ).bindparams(reason=_REASON)
    )
    op.execute(
        "UPDATE epochs SET state = 'abandoned', ended_at = started_at WHERE state = 'open' "
        "AND run_id IN (SELECT id FROM runs WHERE state = 'failed')"
    )


def downgrade() -> None:
    """Go back; an open-ended run has one epoch then, and sessions are forgotten."""
    with op.batch_alter_table("epochs") as epochs:
        for name in ("short", "origin", "sessions"):
            epochs.drop_column(name)
    op.execute("UPDATE runs SET epochs = 1 WHERE epochs IS NULL")
    with op.batch_alter_table("runs") as runs:
        for name in ("fixed_ranks", "left", "reshuffle", "trainers", "checkpoint"):
            runs.drop_column(name)
        runs.alter_column("epochs", existing_type=sa.Integer(), nullable=False)
