"""Lifecycle, ping, progress, cancellation and logging."""

from typing import Any, Literal

from carrel.compat.mcp.types.base import (
    Implementation,
    Notification,
    NotificationParams,
    ProgressToken,
    Request,
    RequestId,
    RequestParams,
    Result,
)
from carrel.compat.mcp.types.capabilities import ClientCapabilities, ServerCapabilities

LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class InitializeRequestParams(RequestParams):
    """Parameters of initialize."""

    protocolVersion: str | int
    capabilities: ClientCapabilities
    clientInfo: Implementation


class InitializeRequest(Request[InitializeRequestParams, Literal["initialize"]]):
    """Request initialize."""

    method: Literal["initialize"] = "initialize"
    params: InitializeRequestParams


class InitializeResult(Result):
    """Result of initialize."""

    protocolVersion: str | int
    capabilities: ServerCapabilities
    serverInfo: Implementation
    instructions: str | None = None


class InitializedNotification(Notification[NotificationParams | None, Literal["notifications/initialized"]]):
    """Notification notifications/initialized."""

    method: Literal["notifications/initialized"] = "notifications/initialized"
    params: NotificationParams | None = None


class PingRequest(Request[RequestParams | None, Literal["ping"]]):
    """Request ping."""

    method: Literal["ping"] = "ping"
    params: RequestParams | None = None


class ProgressNotificationParams(NotificationParams):
    """Parameters of notifications/progress."""

    progressToken: ProgressToken
    progress: float
    total: float | None = None
    message: str | None = None


class ProgressNotification(Notification[ProgressNotificationParams, Literal["notifications/progress"]]):
    """Notification notifications/progress."""

    method: Literal["notifications/progress"] = "notifications/progress"
    params: ProgressNotificationParams


class SetLevelRequestParams(RequestParams):
    """Parameters of logging/setLevel."""

    level: LoggingLevel


class SetLevelRequest(Request[SetLevelRequestParams, Literal["logging/setLevel"]]):
    """Request logging/setLevel."""

    method: Literal["logging/setLevel"] = "logging/setLevel"
    params: SetLevelRequestParams


class LoggingMessageNotificationParams(NotificationParams):
    """Parameters of notifications/message."""

    level: LoggingLevel
    logger: str | None = None
    data: Any


class LoggingMessageNotification(Notification[LoggingMessageNotificationParams, Literal["notifications/message"]]):
    """Notification notifications/message."""

    method: Literal["notifications/message"] = "notifications/message"
    params: LoggingMessageNotificationParams


class CancelledNotificationParams(NotificationParams):
    """Parameters of notifications/cancelled."""

    requestId: RequestId | None = None
    reason: str | None = None


class CancelledNotification(Notification[CancelledNotificationParams, Literal["notifications/cancelled"]]):
    """Notification notifications/cancelled."""

    method: Literal["notifications/cancelled"] = "notifications/cancelled"
    params: CancelledNotificationParams
