"""Which models there are."""

from __future__ import annotations

from api.refusals import NoSuchModel
from api.services import Services
from db.deployments import Deployment, get_deployment, list_deployments


async def all_models(services: Services) -> list[Deployment]:
    async with services.engine.connect() as connection:
        return await list_deployments(connection)


async def show_model(services: Services, name: str) -> Deployment:
    """Raises: NoSuchModel."""
    # PostgreSQL's text cannot hold NUL, so no model has it in its name.
    if "\x00" not in name:
        async with services.engine.connect() as connection:
            found = await get_deployment(connection, name)
        if found is not None:
            return found
    raise NoSuchModel(name)
