"""Ways for messages to travel. A transport knows the protocol, and is given the application."""
