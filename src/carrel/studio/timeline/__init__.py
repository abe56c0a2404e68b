"""Timeline of the messages between the host and its servers: recorded, validated, filtered, and sent again."""
