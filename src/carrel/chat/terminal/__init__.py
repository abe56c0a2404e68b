"""The chat in a terminal: prompt_toolkit reads, rich shows; plain lines where the terminal can do no more."""
