"""What a model's folder says of the model, without loading it."""

from __future__ import annotations

import json
from pathlib import Path

_DEFAULT_CONTEXT_TOKENS = 8192


def context_tokens(model: Path | None) -> int:
    """Tokens of prompt and answer together that the model was made for; a default if it does not say."""
    if model is None:
        return _DEFAULT_CONTEXT_TOKENS
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
        return int(config["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        return _DEFAULT_CONTEXT_TOKENS
