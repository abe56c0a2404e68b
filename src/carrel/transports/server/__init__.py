"""Transports of servers."""
