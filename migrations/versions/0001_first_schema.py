"""First schema: tenants and keys, files, batches, jobs and what a claim needs."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SQL = Path(__file__).parent


def upgrade() -> None:
    op.execute((_SQL / "0001_upgrade.sql").read_text())


def downgrade() -> None:
    op.execute((_SQL / "0001_downgrade.sql").read_text())
