"""What the schemas refuse, in the words of api.refusals: the first fault of a request."""

from __future__ import annotations

from fastapi.exceptions import RequestValidationError

from api.refusals import InvalidJson, InvalidValue, MissingParameter, Refusal, UnknownParameter


def refusal_of(error: RequestValidationError) -> Refusal:
    first = error.errors()[0]
    kind, where = first["type"], first["loc"]
    param = ".".join(str(step) for step in where[1:] if step != "[key]")
    # A body that is absent, or no object at all, has no field to name.
    if kind == "json_invalid" or not param:
        return InvalidJson()
    if kind == "missing":
        return MissingParameter(param)
    if kind == "extra_forbidden":
        return UnknownParameter(param)
    return InvalidValue(param, f"{first['msg']}.")
