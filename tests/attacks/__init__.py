"""Attacks: one client against all others, through real processes and sockets."""
