"""Commands that serve: ``serve``, ``run``, ``dev`` and ``gateway``."""
