"""What can go wrong with the embedded servers, as one kind of error."""

from __future__ import annotations


class EmbeddedError(RuntimeError):
    """An embedded server cannot be prepared or started; the text says why and what to do."""
