"""The transports, against real pipes, sockets and processes."""
