"""Durable lanes: suspects, learned lengths, service rates, and claims that dead rows cannot slow."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parent


def upgrade() -> None:
    op.execute((_SQL / "0002_upgrade.sql").read_text())


def downgrade() -> None:
    op.execute((_SQL / "0002_downgrade.sql").read_text())
