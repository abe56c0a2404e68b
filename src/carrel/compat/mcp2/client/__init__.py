"""Clients: the face of ``mcp.client`` 2."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    "Client": "client",
    "ClientRequestContext": "context",
    "ClientSession": "session",
    "IncomingMessage": "context",
    "InputRequiredRoundsExceededError": "_input_required",
    "Transport": "_transport",
    **dict.fromkeys(
        (
            "ClaimContext",
            "ClientExtension",
            "NotificationBinding",
            "ResultClaim",
            "UnexpectedClaimedResult",
            "advertise",
        ),
        "extension",
    ),
    **dict.fromkeys(
        ("CacheConfig", "CacheEntry", "CacheKey", "CacheMode", "InMemoryResponseCacheStore", "ResponseCacheStore"),
        "caching",
    ),
    **{
        module: module
        for module in (
            "caching",
            "client",
            "context",
            "session",
            "session_group",
            "streamable_http",
            "subscriptions",
        )
    },
}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
