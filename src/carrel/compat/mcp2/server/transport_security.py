"""Allowed hosts and origins of HTTP transports: the same in both generations."""

from carrel.compat.mcp.server.transport_security import TransportSecuritySettings

__all__ = ["DEFAULT_MAX_REQUEST_BODY_SIZE", "TransportSecuritySettings"]

DEFAULT_MAX_REQUEST_BODY_SIZE = 4 * 1024 * 1024
