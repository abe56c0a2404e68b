"""The application that asks: one client for servers of every revision."""
