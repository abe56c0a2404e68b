"""Hosts: many servers as one catalog. A remote server is a provider (``carrel.host.remote``)."""
