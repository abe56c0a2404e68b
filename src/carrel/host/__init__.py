"""Hosts: many servers as one catalog. A remote server is a provider."""

from carrel.host.remote import RemoteProvider

__all__ = ["RemoteProvider"]
