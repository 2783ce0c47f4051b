"""For whoever runs the process: is it alive, is it ready, how does it do."""

from __future__ import annotations

import asyncio
import ipaddress

from fastapi import APIRouter, HTTPException, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from api.refusals import NotReady
from api.services import Use
from api.telemetry import Metrics
from db.schema import has_schema

_PATIENCE_S = 3.0

router = APIRouter()


@router.get("/healthz")
async def alive() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz")
async def ready(services: Use) -> dict[str, str]:
    """Ready: the database answers and has the schema of this code."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            if not await has_schema(services.engine):
                raise NotReady
    except TimeoutError:
        raise NotReady from None
    return {"status": "ready"}


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Only for this machine: for any other, the page is not there."""
    if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
        raise HTTPException(404)
    shown: Metrics = request.app.state.metrics
    return Response(shown.text(), media_type=CONTENT_TYPE_LATEST)
