"""Text that the database can hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError("nul", "The character NUL cannot be stored; remove it")
    return text


Storable = Annotated[str, AfterValidator(_without_nul)]
