"""Options of the decorators of a server, by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from carrel.server.metadata import Meta
from carrel.wire.base import Annotations, Icon
from carrel.wire.tools import ToolAnnotations

if TYPE_CHECKING:
    from carrel.transports.server.authorizer import Authorizer

__all__ = ["ASGIOptions", "PromptOptions", "ResourceOptions", "ServeOptions", "TaskSupport", "ToolOptions"]

Icons: TypeAlias = Iterable[Icon | dict[str, Any] | str]
TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]


class ResourceOptions(TypedDict, total=False):
    """Options of ``Server.resource`` and ``Server.resources.add``.

    ``size`` is in bytes, ``ttl`` in seconds; ``scope`` is "public" or "private"; ``annotations`` are audience, priority
    (0 to 1) and last_modified (ISO 8601).
    """

    name: str | None
    title: str | None
    description: str | None
    mime_type: str | None
    size: int | None
    annotations: Annotations | dict[str, Any] | None
    icons: Icons | None
    ttl: float | None
    scope: str | None
    meta: Meta | None


class PromptOptions(TypedDict, total=False):
    """Options of ``Server.prompt``."""

    title: str | None
    description: str | None
    icons: Icons | None
    meta: Meta | None


class ToolOptions(TypedDict, total=False):
    """Options of ``Server.tool``; ``Tools.add`` explains them."""

    title: str | None
    description: str | None
    annotations: ToolAnnotations | dict[str, Any] | None
    icons: Icons | None
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    structured: bool | None
    mask_errors: bool | None
    task: TaskSupport
    detaches: bool
    ui: str | None
    visibility: Iterable[str] | None
    meta: Meta | None


class ASGIOptions(TypedDict, total=False):
    """Options of ``Server.asgi``; ``transports.server.http.StreamableHTTP`` explains them."""

    allowed_hosts: str | Iterable[str]
    allowed_origins: str | Iterable[str]
    keep_alive: float
    patience: float
    sse_path: str | None
    authorization: Authorizer | None


class ServeOptions(ASGIOptions, total=False):
    """Options of ``Server.run`` over HTTP; ``transports.server.uvicorn.serve_async`` explains them."""

    host: str
    port: int
    path: str
    trusted_proxies: str | Iterable[str]
    on_started: Callable[[str], None] | None
