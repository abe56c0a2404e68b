"""Routes of the API, by subject."""

from __future__ import annotations

from starlette.routing import Router

from carrel.studio.routes import apps, chats, contents, doctor, lists, operations, servers, skills, tasks, timeline
from carrel.studio.routes.responses import not_found
from carrel.studio.studio import Studio

__all__ = ["make_api"]


def make_api(studio: Studio) -> Router:
    """Return the ASGI application of the API."""
    parts = (servers, lists, contents, operations, skills, tasks, apps, chats, timeline, doctor)
    routes = [route for part in parts for route in part.routes(studio)]
    return Router(routes, redirect_slashes=False, default=not_found)
