"""Ready-made providers for what lies outside: folders, skills, and the sources of other packages, by URL.

    app.add_provider(sources.open("./docs", include=["*.md"]))

A source is imported only when it is opened. The interface of providers, for sources of your own, and the transforms of
providers are here too.
"""

from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Provider, Request
from carrel.catalog.resources_as_tools import ResourcesAsTools
from carrel.catalog.transforms.filter import Filter
from carrel.catalog.transforms.namespace import Namespace
from carrel.catalog.transforms.rename import Rename
from carrel.catalog.transforms.transform import Transform
from carrel.sources.registry import open, scheme_of

__all__ = [
    "Change",
    "Events",
    "Filter",
    "Hit",
    "Interest",
    "Namespace",
    "Page",
    "Provider",
    "Rename",
    "Request",
    "ResourcesAsTools",
    "Transform",
    "open",
    "scheme_of",
]
