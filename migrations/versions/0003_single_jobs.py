"""Single jobs: their requests, attempts and idempotency keys; limits and lanes of tenants; admin keys."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parent


def upgrade() -> None:
    op.execute((_SQL / "0003_upgrade.sql").read_text())


def downgrade() -> None:
    op.execute((_SQL / "0003_downgrade.sql").read_text())
