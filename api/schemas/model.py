"""The Model object: one deployment."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from api.schemas.file import unix
from db.deployments import Deployment


class ModelObject(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["fairlane"] = "fairlane"
    # Extensions: tokens of prompt and answer together, and what answers ("simulated" is no model).
    max_model_len: int
    engine: str


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelObject]


def model_object(deployment: Deployment) -> ModelObject:
    return ModelObject(
        id=deployment.name,
        created=unix(deployment.created_at),
        max_model_len=deployment.context_tokens,
        engine=deployment.engine,
    )
