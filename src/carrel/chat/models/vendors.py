"""Table of the vendors and local servers: names, variables of the keys, addresses and default models."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

__all__ = ["VENDORS", "Vendor", "VendorKey"]


class VendorKey(NamedTuple):
    """Key of a vendor, and the variable that it came from."""

    text: str
    variable: str


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """Vendor of language models, or a server on this machine.

    ``api`` is the wire format. ``variables`` may hold the key, the first that is set is taken; without variables no key
    is needed. ``default_model`` is None where the server's first model is taken. ``host_variable`` may hold the address
    instead of ``base_url``.
    """

    name: str
    title: str
    api: Literal["anthropic", "openai", "chat", "gemini"]
    variables: tuple[str, ...] = ()
    default_model: str | None = None
    base_url: str | None = None
    host_variable: str | None = None

    @property
    def extra(self) -> str:
        """The extra of Carrel that installs the SDK."""
        return {"chat": "openai"}.get(self.api, self.api)

    @property
    def local(self) -> bool:
        """Whether it is a server on this machine, without a key."""
        return not self.variables


#: The vendors by name. Without a name, the first whose key is set is taken. Default models as of November 2026.
VENDORS = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            name="anthropic",
            title="Anthropic",
            api="anthropic",
            variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
            default_model="claude-sonnet-5-5",
            host_variable="ANTHROPIC_BASE_URL",
        ),
        Vendor(
            name="openai",
            title="OpenAI",
            api="openai",
            variables=("OPENAI_API_KEY",),
            default_model="gpt-6.2-sol",
            host_variable="OPENAI_BASE_URL",
        ),
        Vendor(
            name="gemini",
            title="Google",
            api="gemini",
            variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            default_model="gemini-3.8-flash",
            host_variable="GOOGLE_GEMINI_BASE_URL",
        ),
        Vendor(
            name="openrouter",
            title="OpenRouter",
            api="chat",
            variables=("OPENROUTER_API_KEY",),
            default_model="openrouter/auto",
            base_url="https://openrouter.ai/api/v1",
        ),
        Vendor(
            name="mistral",
            title="Mistral",
            api="chat",
            variables=("MISTRAL_API_KEY",),
            default_model="mistral-large-latest",
            base_url="https://api.mistral.ai/v1",
        ),
        Vendor(
            name="deepseek",
            title="DeepSeek",
            api="chat",
            variables=("DEEPSEEK_API_KEY",),
            default_model="deepseek-chat",
            base_url="https://api.deepseek.com/v1",
        ),
        Vendor(
            name="groq",
            title="Groq",
            api="chat",
            variables=("GROQ_API_KEY",),
            base_url="https://api.groq.com/openai/v1",
        ),
        Vendor(name="xai", title="xAI", api="chat", variables=("XAI_API_KEY",), base_url="https://api.x.ai/v1"),
        Vendor(
            name="ollama",
            title="Ollama",
            api="chat",
            base_url="http://localhost:11434/v1",
            host_variable="OLLAMA_HOST",
        ),
        Vendor(name="lmstudio", title="LM Studio", api="chat", base_url="http://localhost:1234/v1"),
        Vendor(name="vllm", title="vLLM", api="chat", base_url="http://localhost:8000/v1"),
        Vendor(name="llamacpp", title="llama.cpp", api="chat", base_url="http://localhost:8080/v1"),
    )
}
