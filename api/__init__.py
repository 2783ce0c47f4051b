"""The HTTP API: what clients of OpenAI's Files, Batches and Models already speak."""
