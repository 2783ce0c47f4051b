"""What can be wrong with a request, each with words that say what to do next."""

from __future__ import annotations

_SHOWN = 100  # a client's own words are echoed up to this many characters


class Refusal(Exception):
    """A request that is not carried out. `param` names the field to change."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = None if param is None else param[:_SHOWN]


class MissingKey(Refusal):
    def __init__(self) -> None:
        super().__init__("No API key was sent. Send it in the header 'Authorization: Bearer fl_...'.")


class InvalidKey(Refusal):
    """One answer for junk, unknown, revoked and expired keys."""

    def __init__(self) -> None:
        super().__init__("The API key is not valid. Check it, or ask the operator for a new one.")


class MissingParameter(Refusal):
    def __init__(self, param: str) -> None:
        super().__init__(f"Missing required parameter: '{param[:_SHOWN]}'. Add it to the request.", param)


class UnknownParameter(Refusal):
    def __init__(self, param: str) -> None:
        super().__init__(
            f"Unknown parameter: '{param[:_SHOWN]}'. Remove it, or check how it is spelled.", param
        )


class InvalidValue(Refusal):
    """`remedy` is a sentence that says what the value should be."""

    def __init__(self, param: str, remedy: str) -> None:
        super().__init__(f"Invalid value for '{param[:_SHOWN]}'. {remedy}", param)


class InvalidJson(Refusal):
    def __init__(self) -> None:
        super().__init__(
            "The request body cannot be read as JSON. Send one JSON object in UTF-8, with the header"
            " 'Content-Type: application/json'."
        )


class MalformedForm(Refusal):
    """`problem` is a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"The upload is not a well-formed form. {problem} Send multipart/form-data with the fields"
            " 'purpose' and 'file', as the official client does."
        )


class InvalidFileFormat(Refusal):
    def __init__(self) -> None:
        super().__init__(
            "Invalid file format for Batch API. Must be .jsonl. Rename the file if it has one JSON object a"
            " line.",
            "file",
        )


class FileTooLarge(Refusal):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"File is too large. At most {max_bytes} bytes are accepted: split it into several files.", "file"
        )


class BodyTooLarge(Refusal):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"The request body is larger than {max_bytes} bytes. Make it smaller; send batches as files."
        )


class EncodedBody(Refusal):
    def __init__(self) -> None:
        super().__init__("Encoded bodies are not accepted. Send the body as it is, without Content-Encoding.")


class NotFound(Refusal):
    """One answer for what is missing and for what is another tenant's."""

    def __init__(self, what: str, shown: str, param: str) -> None:
        super().__init__(
            f"No such {what}: '{shown[:_SHOWN]}'. Check the id, and that the API key is of the tenant that"
            " made it.",
            param,
        )


class NoSuchModel(Refusal):
    def __init__(self, shown: str) -> None:
        super().__init__(f"No such model: '{shown[:_SHOWN]}'. GET /v1/models lists those there are.", "model")


class NoSuchUrl(Refusal):
    def __init__(self, method: str, path: str) -> None:
        super().__init__(
            f"Unknown request URL: {method} {path[:_SHOWN]}. Check the URL and the method; paths begin"
            " with /v1."
        )


class WrongMethod(Refusal):
    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not allowed on this URL. Use one of: {allowed}.")
        self.allowed = allowed


class NotCancellable(Refusal):
    def __init__(self, shown: str, status: str) -> None:
        super().__init__(
            f"The batch '{shown}' is {status} and cannot be cancelled any more. Fetch its results instead."
        )


class IdempotencyKeyReused(Refusal):
    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key was sent with another request. Use a new key for a new request, or repeat"
            " the first one unchanged.",
            "Idempotency-Key",
        )


class NotReady(Refusal):
    def __init__(self) -> None:
        super().__init__(
            "The database is out of reach or not at this version's schema. Try again shortly; if it stays"
            " so, the operator should look at the database and run the migrations."
        )
