"""Clients of these tests know nothing of the servers before."""

from support.fixtures import unknown_servers

__all__ = ["unknown_servers"]
