"""/v1/models"""

from __future__ import annotations

from fastapi import APIRouter

from api.schemas.model import ModelList, ModelObject, model_object
from api.services import Use
from api.usecases.models import all_models, show_model

router = APIRouter(prefix="/v1/models")


@router.get("")
async def list_all(services: Use) -> ModelList:
    return ModelList(data=[model_object(found) for found in await all_models(services)])


@router.get("/{model:path}")  # a model's name may hold slashes, sent as they are or as %2F
async def show(model: str, services: Use) -> ModelObject:
    return model_object(await show_model(services, model))
