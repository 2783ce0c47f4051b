"""The request that makes a job, with its body kept as the client wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from api.refusals import InvalidJson
from api.schemas.batch import ENDPOINTS
from api.schemas.storable import Storable
from lanes.batch import LONGEST_WINDOW, Window, completion_window
from lanes.policy import DEFAULT, Policy
from lanes.strict_json import BadJson, NotAnObject, members

_TIME: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)
_LONGEST_SECONDS = int(LONGEST_WINDOW.total_seconds())
_RANKS = DEFAULT.rank_limit


def _deadline(value: object) -> Window | AwareDatetime:
    window = completion_window(value) if isinstance(value, str) else None
    if window is not None:
        return window
    try:
        return _TIME.validate_json(f'"{value}"' if isinstance(value, str) else "null")
    except ValidationError:
        raise PydanticCustomError(
            "deadline",
            "Give a whole number and one of s, m, h, d, at most 30 days, such as 15m, or a time with its"
            " offset, such as 2030-01-31T12:00:00Z",
        ) from None


def _short(text: str) -> str:
    if len(text.encode()) > DEFAULT.custom_id_bytes:
        raise PydanticCustomError("long", f"At most {DEFAULT.custom_id_bytes} bytes are kept; shorten it")
    return text


_Key = Annotated[Storable, Field(max_length=64)]
_Value = Annotated[Storable, Field(max_length=512)]


class JobCreate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    endpoint: ENDPOINTS
    body: dict[str, Any]
    lane: Literal["p0", "p1", "p2"] | None = None
    deadline: Annotated[Window | AwareDatetime, PlainValidator(_deadline)] | None = None
    timeout: Annotated[float, Field(gt=0, le=_LONGEST_SECONDS, strict=True)] | None = None  # seconds
    fairlane_priority: Annotated[int, Field(ge=-_RANKS, le=_RANKS, strict=True)] = 0
    custom_id: Annotated[Storable, Field(min_length=1), AfterValidator(_short)] | None = None
    metadata: Annotated[dict[_Key, _Value], Field(max_length=16)] | None = None

    @model_validator(mode="after")
    def _one_deadline(self) -> JobCreate:
        if self.deadline is not None and self.timeout is not None:
            raise PydanticCustomError("both", "Give deadline or timeout, not both")
        return self


@dataclass(frozen=True, slots=True)
class JobRequest:
    wanted: JobCreate
    body: bytes  # exactly as it stood in the request


def job_request(sent: bytes, policy: Policy) -> JobRequest:
    """Read the request.

    Raises:
        InvalidJson: it is not one JSON object, or nested or long beyond the policy.
        RequestValidationError: a field is not what it should be.
    """
    try:
        text = sent.decode()
        found = members(text, policy)
    except (UnicodeDecodeError, NotAnObject, BadJson):
        raise InvalidJson from None
    try:
        wanted = JobCreate.model_validate({name: member.value for name, member in found.items()})
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *(fault["loc"] or ("deadline",)))} for fault in error.errors()]
        raise RequestValidationError(faults) from None
    body = found["body"]
    return JobRequest(wanted, text[body.start : body.end].encode())
