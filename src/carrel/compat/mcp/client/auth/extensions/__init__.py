"""OAuth grants without a user."""
