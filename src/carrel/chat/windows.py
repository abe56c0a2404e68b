"""Context windows of language models that the list of prices does not have, in tokens."""

from __future__ import annotations

__all__ = ["window_of"]

#: Servers on this machine, whose windows are as large as they are set to; often much smaller than the model allows.
LOCAL = ("ollama", "lmstudio", "vllm", "llamacpp", "http", "https")
LOCAL_WINDOW = 32_000
#: Vendors whose current models all have at least this window.
WINDOWS = {"gemini": 1_000_000}
OTHER = 128_000


def window_of(model: str) -> int:
    """Return the context window of a model, by its name as ``--model`` takes it; ``--context`` overrides it."""
    vendor = model.partition(":")[0]
    return LOCAL_WINDOW if vendor in LOCAL else WINDOWS.get(vendor, OTHER)
