"""vLLM behind the engine port. Only `serving` and `replies` import vLLM, once its environment is set."""
