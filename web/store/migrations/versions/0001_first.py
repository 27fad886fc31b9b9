"""Submissions, runs, events, case results, findings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All tables."""
    op.create_table(
        "submission",
        sa.Column("id", sa.String(24), primary_key=True),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.Column("problem", sa.String(100), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("dtype", sa.String(32)),
        sa.Column("variant", sa.String(64)),
        sa.Column("device", sa.String(8), nullable=False),
        sa.Column("idempotency_key", sa.String(200), unique=True),
        sa.Column("current", sa.Integer(), nullable=False),
    )
    op.create_index("ix_submission_created", "submission", ["created"])
    op.create_index("ix_submission_problem", "submission", ["problem", "kind", "created"])
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("submission_id", sa.String(24), sa.ForeignKey("submission.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("begun", sa.Integer(), nullable=False),
        sa.Column("deaths", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("queued", sa.DateTime(), nullable=False),
        sa.Column("started", sa.DateTime()),
        sa.Column("finished", sa.DateTime()),
        sa.Column("verdict", sa.String(32)),
        sa.Column("passed", sa.Integer()),
        sa.Column("total", sa.Integer()),
        sa.Column("seconds", sa.Double()),
        sa.Column("score", sa.Double()),
        sa.Column("modelled", sa.Boolean()),
        sa.Column("tier", sa.String(64)),
        sa.Column("seed", sa.BigInteger()),
        sa.Column("device", sa.String(200)),
        sa.Column("dtype", sa.String(32)),
        sa.Column("variant", sa.String(64)),
        sa.Column("report", sa.LargeBinary()),
        sa.UniqueConstraint("submission_id", "number", name="uq_run_number"),
    )
    op.create_index("ix_run_state", "run", ["state", "queued"])
    op.create_index("ix_run_ranking", "run", ["verdict", "dtype", "score"])
    op.create_table(
        "event",
        _run_id(),
        sa.Column("seq", sa.Integer(), primary_key=True),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
    )
    op.create_table(
        "case_result",
        _run_id(),
        sa.Column("position", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("benchmark", sa.Boolean(), nullable=False),
        sa.Column("ratio", sa.Double()),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("score", sa.Double()),
    )
    op.create_table(
        "finding",
        _run_id(),
        sa.Column("position", sa.Integer(), primary_key=True),
        sa.Column("case_name", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("tensor", sa.String(200), nullable=False),
    )
    op.create_index("ix_finding_kind", "finding", ["kind"])


def _run_id() -> sa.Column[int]:
    return sa.Column("run_id", sa.Integer(), sa.ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)


def downgrade() -> None:
    """Nothing is left."""
    for table in ("finding", "case_result", "event", "run", "submission"):
        op.drop_table(table)
