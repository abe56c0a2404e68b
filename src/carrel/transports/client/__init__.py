"""Transports of clients."""
