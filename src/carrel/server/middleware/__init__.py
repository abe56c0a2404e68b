"""Middleware around the requests that a server handles: the base class, and ready-made middleware."""
