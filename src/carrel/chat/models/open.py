"""Opens language models by name: ``anthropic:claude-…``, ``ollama:…``, ``http://localhost:11434/v1#…``."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Protocol
from urllib.parse import urlsplit

from carrel.chat.model import Model, ModelEvent, ModelRequest
from carrel.chat.models.failures import UnknownModel, VendorAccess
from carrel.chat.models.vendors import VENDORS, Vendor, VendorKey
from carrel.errors import ConfigError, MCPError
from carrel.near_names import did_you_mean, nearest_first
from carrel.references import from_keyring

__all__ = ["configured_model", "configured_vendors", "default_vendor", "list_models", "open_model"]

#: Variable that holds the name of the model to use where none is given.
MODEL_VARIABLE = "CARREL_MODEL"
#: Variable of the key for servers that are given by their URL.
URL_KEY_VARIABLE = "CARREL_MODEL_KEY"
#: Service of the keyring that has the keys, each under the name of its variable.
SERVICE = "carrel"
#: Prefixes of model names that identify the vendor.
BEGINNINGS = (("claude", "anthropic"), ("gemini", "gemini"), ("gpt-", "openai"), ("chatgpt-", "openai"))


class ListingModel(Model, Protocol):
    """Model that can list the models of its vendor."""

    async def models(self) -> list[str]:
        """Return the names of the vendor's models."""


async def open_model(
    name: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    retries: int | None = None,
) -> Model:
    """Open a model by its name.

    Args:
        name: ``VENDOR:MODEL``; ``VENDOR`` for its default model; ``URL#MODEL`` for a server that is compatible with
            OpenAI's Chat Completions; a model's name that implies its vendor. None: the value of CARREL_MODEL, else the
            default model of the first vendor whose key is set.
        environment: environment variables; the default is ``os.environ``.
        defaults: default models by vendor, which replace the ``VENDORS`` table.
        retries: maximum number of retries of a failed request; None for the policy of the vendor's SDK.

    Raises:
        ConfigError: there is no such vendor, its SDK is not installed, or there is no key.
        TransportError: the server cannot be reached to list its models.
    """
    environment = os.environ if environment is None else environment
    defaults = defaults or {}
    name = name or environment.get(MODEL_VARIABLE) or await first_with_key(environment)
    vendor, model = split(name)
    key = await find_key(vendor, environment)
    model = model or defaults.get(vendor.name) or vendor.default_model or ""
    if model:
        return OpenedModel(build(vendor, model, key, environment, retries), vendor, model)
    listing = build(vendor, "", key, environment, retries)
    try:
        found = await listing.models()
    finally:
        await listing.close()
    if not found:
        raise ConfigError(f"{vendor.title} has no models yet: load one, or name another vendor")
    return OpenedModel(build(vendor, found[0], key, environment, retries), vendor, found[0])


async def list_models(
    vendor: str, *, environment: Mapping[str, str] | None = None, retries: int | None = None
) -> list[str]:
    """Return the names of the models that a vendor has for this key, as ``open_model`` takes them.

    Args:
        vendor: name of a vendor, or the URL of a server.

    Raises:
        ConfigError: see ``open_model``.
        TransportError: the vendor cannot be reached, or answers with an error.
    """
    environment = os.environ if environment is None else environment
    found, _ = split(vendor)
    model = build(found, "", await find_key(found, environment), environment, retries)
    try:
        separator = "#" if "://" in found.name else ":"
        return [f"{found.name}{separator}{each}" for each in await model.models()]
    finally:
        await model.close()


async def default_vendor(environment: Mapping[str, str] | None = None) -> str:
    """Return the vendor, or the URL, of the model that ``open_model`` takes where none is named.

    Raises:
        ConfigError: there is no key at all, or the variable CARREL_MODEL names no vendor.
    """
    environment = os.environ if environment is None else environment
    return split(environment.get(MODEL_VARIABLE) or await first_with_key(environment))[0].name


def configured_model(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the name of the model that ``open_model`` takes where none is named, without looking into the keyring.

    None: neither CARREL_MODEL nor the key of a vendor is set.
    """
    environment = os.environ if environment is None else environment
    if named := environment.get(MODEL_VARIABLE):
        return named
    for vendor in VENDORS.values():
        if any(environment.get(variable) for variable in vendor.variables):
            return f"{vendor.name}:{vendor.default_model}" if vendor.default_model else vendor.name
    return None


async def configured_vendors(environment: Mapping[str, str] | None = None) -> list[Vendor]:
    """Return the vendors that have a key, and the local ones."""
    environment = os.environ if environment is None else environment
    found = []
    for vendor in VENDORS.values():
        with suppress(ConfigError):
            await find_key(vendor, environment)
            found.append(vendor)
    return found


def split(name: str) -> tuple[Vendor, str]:
    """Return the vendor and the model of a name; the model is empty if the name has none.

    Raises:
        ConfigError: the vendor is unknown, or the URL is not valid.
    """
    if "://" in name:
        return split_url(name)
    before, colon, model = name.partition(":")
    if vendor := VENDORS.get(before.strip().lower()):
        return vendor, model.strip()
    if not colon or before.startswith(tuple(beginning for beginning, _ in BEGINNINGS)):
        for beginning, vendor_name in BEGINNINGS:
            if name.startswith(beginning):
                return VENDORS[vendor_name], name
        if re.fullmatch(r"o\d(-.*)?", name):
            return VENDORS["openai"], name
    hint = did_you_mean(before, VENDORS) or "."
    raise ConfigError(
        f"There is no vendor {before!r} of language models{hint} "
        f"Write VENDOR:MODEL or URL#MODEL; the vendors are {', '.join(VENDORS)}"
    )


def split_url(name: str) -> tuple[Vendor, str]:
    """Return the vendor for a URL, and the model after its ``#``.

    Raises:
        ConfigError: it is no http: or https: URL, or has a password in it.
    """
    url, _, model = name.partition("#")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{url} is not the URL of a server: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{url} is not the URL of a server: it has to begin with http:// or https:// and have a host")
    if parts.username or parts.password:
        raise ConfigError(f"The URL of {host} has a password in it: set the variable {URL_KEY_VARIABLE} instead")
    address = url.rstrip("/")
    return Vendor(name=address, title=f"The server {parts.netloc}", api="chat", base_url=address), model


async def first_with_key(environment: Mapping[str, str]) -> str:
    """Return the name of the first vendor whose key is set.

    Raises:
        ConfigError: there is no key at all.
    """
    for vendor in VENDORS.values():
        if any(environment.get(variable) for variable in vendor.variables):
            return vendor.name
    for vendor in VENDORS.values():
        if vendor.variables and await stored_key(vendor.variables):
            return vendor.name
    variables = ", ".join(vendor.variables[0] for vendor in VENDORS.values() if vendor.variables)
    raise ConfigError(f"No key of a language model is set. Set one of {variables}; or name a local model: ollama:MODEL")


async def find_key(vendor: Vendor, environment: Mapping[str, str]) -> VendorKey | None:
    """Return a vendor's API key from the environment or the keyring, or None if the vendor needs no key.

    Raises:
        ConfigError: the key is missing.
    """
    if "://" in vendor.name:
        key = environment.get(URL_KEY_VARIABLE)
        return checked(VendorKey(key.strip(), URL_KEY_VARIABLE)) if key else None
    if vendor.local:
        return None
    for variable in vendor.variables:
        if key := environment.get(variable, "").strip():
            return checked(VendorKey(key, variable))
    if found := await stored_key(vendor.variables):
        return checked(found)
    raise ConfigError(
        f"{vendor.title} needs a key: set the variable {vendor.variables[0]}, or put it into the keyring: "
        f"keyring set {SERVICE} {vendor.variables[0]}"
    )


def checked(key: VendorKey) -> VendorKey:
    """Return a key that can be sent in a header.

    Raises:
        ConfigError: it has characters that no key has, as from a copy of more than the key.
    """
    if key.text.isascii() and key.text.isprintable() and " " not in key.text:
        return key
    raise ConfigError(f"{key.variable} is not a valid key: it has spaces, line breaks or characters that are not ASCII")


async def stored_key(variables: tuple[str, ...]) -> VendorKey | None:
    """Return the first key that the keyring of the operating system has; None without a keyring or a key."""
    with suppress(ConfigError):
        for variable in variables:
            if text := await asyncio.to_thread(from_keyring, SERVICE, variable):
                return VendorKey(text, variable)
    return None


def address_of(vendor: Vendor, environment: Mapping[str, str]) -> str | None:
    """Return the URL of a vendor's API, or None for the default of its SDK."""
    written = environment.get(vendor.host_variable or "", "").strip().rstrip("/")
    if not written:
        return vendor.base_url
    if vendor.api != "chat":
        return written
    written = written if "://" in written else f"http://{written}"
    parts = urlsplit(written)
    host = "127.0.0.1" if parts.hostname == "0.0.0.0" else parts.hostname  # noqa: S104 - the address to listen at
    return f"{parts.scheme}://{host}:{parts.port or urlsplit(vendor.base_url or '').port}/v1"


def build(
    vendor: Vendor, model: str, key: VendorKey | None, environment: Mapping[str, str], retries: int | None
) -> ListingModel:
    """Return a model of a vendor.

    Raises:
        ConfigError: the vendor's SDK is not installed.
    """
    address = address_of(vendor, environment)
    access = VendorAccess(vendor.title, address or f"the API of {vendor.title}", key.variable if key else None)
    try:
        if vendor.api == "anthropic":
            from carrel.chat.models.anthropic import open_anthropic

            return open_anthropic(model, access, key, address, retries)
        if vendor.api == "gemini":
            from carrel.chat.models.gemini import open_gemini

            return open_gemini(model, access, key, address, retries)
        if vendor.api == "openai":
            from carrel.chat.models.openai import open_openai

            return open_openai(model, access, key, address, retries)
        from carrel.chat.models.openai_compatible import open_compatible

        return open_compatible(model, access, key, address, retries, vendor.name)
    except ImportError as error:  # of google.genai, if another package of google is installed
        if (error.name or "").partition(".")[0] not in ("anthropic", "google", "openai"):
            raise
        package = {"gemini": "google-genai"}.get(vendor.extra, vendor.extra)
        raise ConfigError(
            f"Models of {vendor.title} need the package {package}: pip install 'carrel[{vendor.extra}]'"
        ) from None


class OpenedModel:
    """Model that was opened by name. If the vendor does not have it, the error lists the vendor's models."""

    def __init__(self, model: ListingModel, vendor: Vendor, name: str) -> None:
        self._model = model
        self._vendor = vendor
        self._name = name

    @property
    def name(self) -> str:
        """The model's name as ``--model`` takes it."""
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the next message; see ``Model``."""
        try:
            async with aclosing(self._model.stream(request)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        except UnknownModel as error:
            raise ConfigError(await self._unknown(str(error))) from None

    async def _unknown(self, answer: str) -> str:
        try:
            names = await self._model.models()
        except MCPError:
            return answer
        if self._name in names:
            return answer
        nearest = ", ".join(nearest_first(self._name, names)[:5])
        return f"{self._vendor.title} has no model {self._name!r}; the nearest are {nearest or 'none'}"

    async def close(self) -> None:
        """Close connections."""
        await self._model.close()
