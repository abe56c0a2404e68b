"""Middleware around the requests that a server handles: the base class, and ready-made middleware.

    app.middleware(Timing())
    app.middleware(RateLimit(20))

See docs/middleware.md.
"""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.server.middleware.caching import Caching
    from carrel.server.middleware.error_mapping import ErrorMapping
    from carrel.server.middleware.logging import Logging
    from carrel.server.middleware.middleware import Middleware, MiddlewareFunction, Next
    from carrel.server.middleware.rate_limit import RateLimit
    from carrel.server.middleware.retry import Retry
    from carrel.server.middleware.timing import Timing

__all__ = [
    "Caching",
    "ErrorMapping",
    "Logging",
    "Middleware",
    "MiddlewareFunction",
    "Next",
    "RateLimit",
    "Retry",
    "Timing",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.server.middleware.caching": ("Caching",),
    "carrel.server.middleware.error_mapping": ("ErrorMapping",),
    "carrel.server.middleware.logging": ("Logging",),
    "carrel.server.middleware.middleware": ("Middleware", "MiddlewareFunction", "Next"),
    "carrel.server.middleware.rate_limit": ("RateLimit",),
    "carrel.server.middleware.retry": ("Retry",),
    "carrel.server.middleware.timing": ("Timing",),
}

__getattr__ = late(__name__, MODULES)
