"""Answers are kept by their Idempotency-Key; runs say when their details were removed."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Go forward."""
    op.create_table(
        "kept_answers",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
    )
    op.create_index("ix_kept_answers_at", "kept_answers", ["at"])
    with op.batch_alter_table("runs") as changed:
        changed.add_column(sa.Column("details_removed_at", sa.Double(), nullable=True))


def downgrade() -> None:
    """Go back; a request that is repeated is refused or makes another thing then."""
    with op.batch_alter_table("runs") as changed:
        changed.drop_column("details_removed_at")
    op.drop_table("kept_answers")
