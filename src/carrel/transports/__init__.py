"""Transports of clients and servers: stdio, Streamable HTTP, HTTP+SSE and in-memory."""
