"""Folders: what is shared of them, opened and watched safely."""
