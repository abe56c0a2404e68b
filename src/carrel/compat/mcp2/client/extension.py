"""Extensions of a client: declarations, and types of results and notifications beyond the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

from pydantic import BaseModel

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.shared.extension import validate_extension_identifier
from carrel.compat.mcp2.types.base import CORE_RESULT_TYPES, Result
from carrel.compat.mcp2.types.version import MODERN_PROTOCOL_VERSIONS

__all__ = [
    "ClaimContext",
    "ClientExtension",
    "NotificationBinding",
    "ResultClaim",
    "UnexpectedClaimedResult",
    "advertise",
]

ClaimedT = TypeVar("ClaimedT", bound=Result)
NotifyParamsT = TypeVar("NotifyParamsT", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class ClaimContext:
    """Context of a claimed result."""

    session: Any
    tool_name: str
    read_timeout_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class ResultClaim(Generic[ClaimedT]):
    """Type of results of tool calls that an extension adds, and the function that makes an ordinary result of one.

    Raises:
        ValueError: the protocol has this type, or the model does not fit.
    """

    result_type: str
    model: type[ClaimedT]
    resolve: Callable[[ClaimedT, ClaimContext], Awaitable[Any]]
    method: Literal["tools/call"] = "tools/call"
    protocol_versions: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.method != "tools/call":
            raise ValueError(f"claims attach to ['tools/call'] only; got method {self.method!r}")
        if self.result_type in CORE_RESULT_TYPES:
            raise ValueError(f"resultType {self.result_type!r} is core protocol vocabulary")
        if not issubclass(self.model, Result):
            raise ValueError(f"{self.model.__name__} must subclass mcp_types.Result")
        if issubclass(self.model, types.CallToolResult | types.InputRequiredResult):
            raise ValueError("claim models must not subclass core result types")
        field = self.model.model_fields.get("result_type")
        if field is None or get_args(field.annotation) != (self.result_type,):
            raise ValueError(f"{self.model.__name__}.result_type must be Literal[{self.result_type!r}]")
        if self.protocol_versions is not None:
            if not self.protocol_versions:
                raise ValueError("empty protocol_versions could never activate; use None for all")
            unknown = sorted(self.protocol_versions.difference(MODERN_PROTOCOL_VERSIONS))
            if unknown:
                raise ValueError(f"protocol_versions {unknown} are not modern protocol revisions")


class UnexpectedClaimedResult(RuntimeError):
    """A result of an extension, for a caller that takes only ordinary results."""

    def __init__(self, result: Any) -> None:
        super().__init__(
            f"Server returned a claimed result ({type(result).__name__}); pass the owning extension to "
            "Client(extensions=[...]), or call with allow_claimed=True and handle the shape."
        )
        self.result = result


@dataclass(frozen=True, kw_only=True)
class NotificationBinding(Generic[NotifyParamsT]):
    """Notification that an extension adds, and its handler."""

    method: str
    params_type: type[NotifyParamsT]
    handler: Callable[[NotifyParamsT], Awaitable[None]]


class ClientExtension:
    """Base of extensions. Each method has a default; ``identifier`` is such as "com.example/search"."""

    identifier: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        identifier = cls.__dict__.get("identifier")
        if identifier is not None:
            validate_extension_identifier(identifier, owner=cls.__name__)

    def settings(self) -> dict[str, Any]:
        """Return the settings that the client declares."""
        return {}

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the types of results."""
        return ()

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        """Return the notifications."""
        return ()


class _Advertised(ClientExtension):
    def __init__(self, identifier: str, settings: dict[str, Any]) -> None:
        self.identifier = identifier
        self._settings = settings

    def settings(self) -> dict[str, Any]:
        return self._settings


def advertise(identifier: str, settings: dict[str, Any] | None = None) -> ClientExtension:
    """Return an extension that is only declared."""
    validate_extension_identifier(identifier, owner="advertise")
    return _Advertised(identifier, settings or {})
