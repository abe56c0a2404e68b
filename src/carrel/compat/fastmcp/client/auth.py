"""Authentication of clients: bearer tokens. OAuth is not mirrored."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

__all__ = ["BearerAuth"]

OAUTH = "use carrel.Client with carrel.security.client (docs/client-authorization.md)"


class BearerAuth:
    """Bearer token for ``Client(auth=…)``."""

    def __init__(self, token: str) -> None:
        self.token = token


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {}, {"OAuth": OAUTH, "OAuthClientProvider": OAUTH})
