"""State that replicas of a server share, as records: interfaces, the store in memory, and their contract tests."""
