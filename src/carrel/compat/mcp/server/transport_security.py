"""Allowed hosts and origins of HTTP transports."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["TransportSecuritySettings", "names_of"]


class TransportSecuritySettings(BaseModel):
    """Allowed Host headers and origins, against DNS rebinding. A port may be ``*``."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = Field(default_factory=list)
    allowed_origins: list[str] = Field(default_factory=list)


def names_of(settings: TransportSecuritySettings | None) -> tuple[list[str], list[str]]:
    """Return the allowed hosts and origins in Carrel's terms, where a host is allowed with any port."""
    if settings is None or not settings.enable_dns_rebinding_protection:
        return ["*"], ["*"]
    return [host.removesuffix(":*") for host in settings.allowed_hosts], settings.allowed_origins
