"""Client transports: stdio, Streamable HTTP and HTTP+SSE."""
