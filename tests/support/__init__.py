"""Clients, servers and outside programs that the tests share."""
