"""Context windows of language models whose own window is not known, in tokens."""

from __future__ import annotations

__all__ = ["window_of"]

#: Servers on this machine, whose windows are as large as they are set to; often much smaller than the model allows.
LOCAL = ("ollama", "lmstudio", "vllm", "llamacpp", "http", "https")
LOCAL_WINDOW = 32_000
OTHER = 128_000


def window_of(model: str) -> int:
    """Return the context window of a model, by its name as ``--model`` takes it; ``--context`` says it better."""
    return LOCAL_WINDOW if model.partition(":")[0] in LOCAL else OTHER
