"""Requests from handlers to the client: elicitation, sampling and roots."""
