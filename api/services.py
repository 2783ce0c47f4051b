"""What every request may use, made once by the entry point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncEngine

from api.watch import Watch
from db.objects import Objects
from db.redis.doorbell import Doorbell


@dataclass(frozen=True, slots=True)
class Services:
    engine: AsyncEngine  # as the API role: row-level security binds it
    objects: Objects
    doorbell: Doorbell
    max_file_bytes: int
    watch: Watch


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Use = Annotated[Services, Depends(_services)]
