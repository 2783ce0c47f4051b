"""What a vLLM engine is started with: one frozen value, and vLLM's command line made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lanes.lane import Lane

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """Settings of one engine. None leaves a choice to vLLM.

    `model` is a folder in Hugging Face's layout; `served_name` is the name that clients use;
    `max_num_seqs` is the number of seats; `lanes` says what keeps P0 ahead of bulk: our scheduler
    inside vLLM, or a cap in front of vLLM's own (taken anyway where ours cannot be); `extra` are
    further vLLM arguments, as on its command line.
    """

    model: str
    served_name: str
    max_num_seqs: int
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_memory_bytes: int | None = None
    block_size: int | None = None
    dtype: str = "auto"
    enforce_eager: bool = False
    lanes: Literal["subclass", "cap"] = "subclass"
    extra: tuple[str, ...] = ()

    @classmethod
    def for_cpu(cls, model: str, served_name: str) -> VllmSettings:
        """Settings that measured well for a small model on two cores.

        vLLM's default sizes the KV cache as a share of all memory, so it is given in bytes here.
        Eager mode starts in half a minute; compiling takes minutes and needs a C++ compiler.
        """
        return cls(
            model,
            served_name,
            max_num_seqs=128,
            max_num_batched_tokens=2048,
            kv_cache_memory_bytes=2 * GIB,
            dtype="bfloat16",
            enforce_eager=True,
        )

    @classmethod
    def for_gpu(cls, model: str, served_name: str) -> VllmSettings:
        """vLLM's own defaults, with the number of seats made explicit because the lanes share it."""
        return cls(model, served_name, max_num_seqs=256)

    def arguments(self) -> list[str]:
        """These settings as arguments of any vLLM command."""
        optional = {
            "--max-model-len": self.max_model_len,
            "--max-num-batched-tokens": self.max_num_batched_tokens,
            "--kv-cache-memory-bytes": self.kv_cache_memory_bytes,
            "--block-size": self.block_size,
        }
        arguments = [
            *("--model", self.model),
            *("--served-model-name", self.served_name),
            *("--max-num-seqs", str(self.max_num_seqs)),
            *("--dtype", self.dtype),
            # The lane is the priority, see vllm_priority; without this policy vLLM ignores it silently.
            *("--scheduling-policy", "priority"),
            "--enable-prefix-caching",
            "--enable-prompt-tokens-details",
            "--disable-log-stats",
            "--no-use-tqdm-on-load",
        ]
        for flag, value in optional.items():
            if value is not None:
                arguments += [flag, str(value)]
        if self.enforce_eager:
            arguments.append("--enforce-eager")
        return [*arguments, *self.extra]


def vllm_priority(lane: Lane) -> int:
    """vLLM schedules the lower priority value first, as lanes are numbered."""
    return int(lane)
