"""Options of a policy engine: ``[access.engine]`` of ``carrel.toml``."""

from __future__ import annotations

from carrel.redaction import RedactedStruct, Secret

__all__ = ["AuthZenOptions"]


class AuthZenOptions(RedactedStruct, frozen=True, forbid_unknown_fields=True):
    """Options of a policy engine.

    ``url`` is its identifier, the URL before ``/access/v1/evaluation``. ``token`` is sent as a bearer token. Decisions
    whose response has no Cache-Control are cached for ``cache_seconds``. ``timeout`` is in seconds.
    """

    url: str
    token: Secret = ""
    cache_seconds: float = 0.0
    timeout: float = 5.0
