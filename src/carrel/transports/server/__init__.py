"""Server transports: stdio, Streamable HTTP (ASGI) and HTTP+SSE."""
