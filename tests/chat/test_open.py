"""Opening of models by name: vendors, keys, addresses, default models, packages that are missing; lists of models."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import keyring
import keyring.backend
import pytest

from carrel.chat.models.open import address_of, list_models, open_model, split
from carrel.chat.models.vendors import VENDORS
from carrel.errors import ConfigError, TransportError
from chat.endpoints import Answer, Say, anthropic_endpoint, gemini_endpoint, openai_endpoint
from chat.exchange import ask, opened

KEYS = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g"}


class Ring(keyring.backend.KeyringBackend):
    """Keyring in memory."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


@pytest.fixture(autouse=True)
def ring() -> Iterator[Ring]:
    before, mine = keyring.get_keyring(), Ring()
    keyring.set_keyring(mine)
    yield mine
    keyring.set_keyring(before)


async def name_of(name: str | None, environment: dict[str, str], **options: dict[str, str]) -> str:
    model = await open_model(name, environment=environment, **options)  # type: ignore[arg-type]
    try:
        return model.name
    finally:
        await model.close()


@pytest.mark.parametrize(
    ("name", "opened_name"),
    [
        ("anthropic:claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("anthropic", f"anthropic:{VENDORS['anthropic'].default_model}"),
        ("gemini:", f"gemini:{VENDORS['gemini'].default_model}"),
        ("claude-haiku-5-5", "anthropic:claude-haiku-5-5"),
        ("gpt-6-luna", "openai:gpt-6-luna"),
        ("o4-mini", "openai:o4-mini"),
        ("gemini-2.5-pro", "gemini:gemini-2.5-pro"),
        ("openai:ft:gpt-4.1:mine::1", "openai:ft:gpt-4.1:mine::1"),
        ("ollama:llama3.3:70b", "ollama:llama3.3:70b"),
        ("http://localhost:1234/v1/#qwen3:8b", "http://localhost:1234/v1#qwen3:8b"),
        ("https://models.example.com/v1#a/b", "https://models.example.com/v1#a/b"),
    ],
)
async def test_names_of_models(name: str, opened_name: str) -> None:
    assert await name_of(name, KEYS) == opened_name


async def test_the_first_vendor_with_a_key_is_taken_without_a_name() -> None:
    assert (await name_of(None, KEYS)).startswith("anthropic:")
    assert (await name_of(None, {"GEMINI_API_KEY": "g", "OPENAI_API_KEY": "o"})).startswith("openai:")
    assert await name_of(None, {**KEYS, "CARREL_MODEL": "gemini:gemini-2.5-flash"}) == "gemini:gemini-2.5-flash"


async def test_default_models_can_be_replaced() -> None:
    assert await name_of("openai", KEYS, defaults={"openai": "gpt-6-luna"}) == "openai:gpt-6-luna"


def test_default_models_are_those_that_the_sdks_know() -> None:
    from typing import get_args

    from anthropic.types.model import Model as AnthropicNames
    from openai.types.shared.chat_model import ChatModel

    assert VENDORS["anthropic"].default_model in str(get_args(AnthropicNames))
    assert VENDORS["openai"].default_model in get_args(ChatModel)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("antropic:claude", "no vendor 'antropic' of language models; did you mean 'anthropic'?"),
        ("llama3.3", "Write VENDOR:MODEL or URL#MODEL"),
        ("ftp://localhost#x", "has to begin with http"),
        ("http://:80#x", "have a host"),
        ("http://localhost:port/v1#x", "is not the URL"),
        ("http://user:secret@localhost/v1#x", "set the variable CARREL_MODEL_KEY"),
        ("openai:gpt-6-luna", "OpenAI needs a key: set the variable OPENAI_API_KEY"),
        (None, "Set one of ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY"),
    ],
)
async def test_mistakes_are_explained(name: str | None, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await open_model(name, environment={})
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-ü", "sk one", "sk\none"])
async def test_a_key_that_cannot_be_sent_is_not_tried(key: str) -> None:
    for name, variable in (("openai", "OPENAI_API_KEY"), ("http://localhost/v1#x", "CARREL_MODEL_KEY")):
        with pytest.raises(ConfigError, match=f"{variable} is not a valid key") as caught:
            await open_model(name, environment={variable: key})
        assert key not in str(caught.value)


async def test_a_key_may_be_in_the_keyring(ring: Ring) -> None:
    ring.set_password("carrel", "OPENAI_API_KEY", "from-the-ring")
    assert (await name_of(None, {})).startswith("openai:")
    ring.set_password("carrel", "ANTHROPIC_AUTH_TOKEN", "from-the-ring")
    assert (await name_of("anthropic", {})).startswith("anthropic:")


async def test_a_keyring_that_cannot_be_read_has_no_key(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(service: str, username: str) -> str | None:
        raise RuntimeError("locked")

    monkeypatch.setattr(ring, "get_password", locked)
    with pytest.raises(ConfigError, match="needs a key: set the variable OPENAI_API_KEY"):
        await open_model("openai", environment={})


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("", "http://localhost:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("box:1234", "http://box:1234/v1"),
        ("https://models.example.com:443", "https://models.example.com:443/v1"),
    ],
)
def test_the_address_of_ollama_is_that_of_its_own_variable(written: str, address: str) -> None:
    assert address_of(VENDORS["ollama"], {"OLLAMA_HOST": written}) == address


@pytest.mark.parametrize("vendor", ["anthropic", "openai", "gemini", "ollama"])
async def test_a_missing_package_is_named_with_its_extra(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"ollama": "openai"}.get(vendor, vendor)
    package = {"gemini": "google.genai"}.get(extra, extra)
    for name in [name for name in sys.modules if name.startswith(f"carrel.chat.models.{extra}") or name == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    if extra == "gemini":
        monkeypatch.delattr("google.genai", raising=False)
    with pytest.raises(ConfigError, match=rf"pip install 'carrel\[{extra}\]'"):
        await open_model(f"{vendor}:x", environment=KEYS)


@pytest.mark.slow
async def test_the_models_of_a_vendor_are_listed() -> None:
    with anthropic_endpoint([]) as endpoint:
        assert "anthropic:claude-opus-5-5" in await list_models("anthropic", environment=endpoint.environment)
    with gemini_endpoint([]) as endpoint:
        found = await list_models("gemini", environment=endpoint.environment)
        assert "gemini:gemini-3.8-flash" in found
        assert not any("embedding" in name for name in found)
    with openai_endpoint([]) as endpoint:
        assert "openai:gpt-6.2-sol" in await list_models("openai", environment=endpoint.environment)
        assert f"{endpoint.url}#qwen3:8b" in await list_models(endpoint.url, environment={})


@pytest.mark.slow
async def test_a_list_of_models_needs_the_right_key_and_a_server() -> None:
    with gemini_endpoint([]) as endpoint, pytest.raises(ConfigError, match="refuses the key of GEMINI_API_KEY"):
        await list_models("gemini", environment={**endpoint.environment, "GEMINI_API_KEY": "wrong"})
    with pytest.raises(TransportError, match="cannot be reached"):
        await list_models(endpoint.url, environment={}, retries=0)


@pytest.mark.slow
async def test_the_first_model_of_a_local_server_is_its_default() -> None:
    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        address = endpoint.url.removesuffix("/v1")
        endpoint.environment["OLLAMA_HOST"] = address
        async with opened(endpoint, "ollama") as model:
            assert model.name == "ollama:gpt-6.2-astra"
            assert (await ask(model, "Hi")).text == "Hi"


def test_a_url_is_split_at_its_fragment() -> None:
    vendor, model = split("http://localhost:8080/v1#org/model#4bit")
    assert (vendor.base_url, model) == ("http://localhost:8080/v1", "org/model#4bit")


def test_no_sdk_is_loaded_before_a_model_is_opened() -> None:
    script = "import carrel.chat.models.open, carrel.chat.prices, carrel.chat.sampling, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.partition(".")[0] for name in found.stdout.split()}
    assert not loaded & {"anthropic", "openai", "google", "httpx", "httpx2", "pydantic", "aiohttp", "keyring"}
    script = "import carrel, sys; carrel.Server; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert not {name for name in found.stdout.split() if name.startswith(("carrel.chat", "carrel.vendors"))}
