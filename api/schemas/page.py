"""A list on the wire: one page, its first and last id, and whether more follow."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from api.schemas.batch import BatchObject
from api.schemas.file import FileObject
from api.schemas.job import JobObject

Item = TypeVar("Item", FileObject, BatchObject, JobObject)


class PageObject(BaseModel, Generic[Item]):
    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


def page_object(items: list[Item], has_more: bool) -> PageObject[Item]:
    return PageObject(
        data=items,
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
        has_more=has_more,
    )
