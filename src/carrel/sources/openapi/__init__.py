"""Source of APIs that are described in OpenAPI 3: operations as documentation, resources and tools.

from carrel.sources import openapi

app.add_provider(openapi.from_asgi(api, write=True))        # a FastAPI application, in memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carrel.sources.openapi.source import OpenAPISource

__all__ = ["from_asgi"]


def from_asgi(app: Any, description: dict[str, Any] | None = None, **options: Any) -> OpenAPISource:
    """Return the source of an ASGI application in this process, such as one of FastAPI.

    Without ``description``, the return value of the application's method ``openapi`` is used. ``options`` are the
    options of ``OpenAPIOptions``, by name.

    Raises:
        ConfigError: the application has no description, an option is wrong, or httpx is missing.
    """
    from carrel.errors import ConfigError
    from carrel.sources.openapi.options import OpenAPIOptions
    from carrel.sources.openapi.source import OpenAPISource
    from carrel.sources.registry import read_options

    if description is None:
        describe = getattr(app, "openapi", None)
        description = describe() if callable(describe) else None
    if not isinstance(description, dict):
        raise ConfigError("the application has no method openapi() that describes it; pass its description")
    chosen = read_options(OpenAPIOptions, options, "openapi:")
    return OpenAPISource("openapi+http://app/openapi.json", chosen, app=app, description=description)
