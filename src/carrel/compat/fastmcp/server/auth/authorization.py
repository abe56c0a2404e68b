"""Authorization of components, under its first name."""

from carrel.compat.fastmcp.utilities.authorization import (
    AuthCheck,
    AuthContext,
    require_roles,
    require_scopes,
    restrict_tag,
    run_auth_checks,
)

__all__ = ["AuthCheck", "AuthContext", "require_roles", "require_scopes", "restrict_tag", "run_auth_checks"]
