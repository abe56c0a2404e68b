"""Commands that send requests to a server, such as ``ls``, ``call`` and ``doctor``."""
