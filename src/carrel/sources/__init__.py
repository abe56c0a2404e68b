"""Ready-made providers, opened by path or URL: folders, skills, and the sources of other packages.

    app.add_provider(sources.open("./docs", include=["*.md"]))

A source is imported only when it is opened. The interface of providers, for sources of your own, and the transforms of
providers are here too.
"""

from typing import TYPE_CHECKING

from carrel.catalog.forwarding import ForwardingProvider
from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Provider, Request
from carrel.catalog.resources_as_tools import ResourcesAsTools
from carrel.catalog.transforms.change_items import ChangeItems
from carrel.catalog.transforms.filter import Filter
from carrel.catalog.transforms.namespace import Namespace
from carrel.catalog.transforms.rename import Rename
from carrel.catalog.transforms.transform import Transform
from carrel.late import late
from carrel.sources.registry import open, scheme_of

if TYPE_CHECKING:
    from carrel.sources.databases.watch import trigger_sql
    from carrel.sources.documents.documents import Documents, Original
    from carrel.sources.options import Count, Folder, Glob, Globs, RedactedStruct, Secret, Size
    from carrel.sources.stores.memory import InMemoryStore
    from carrel.threads import ThreadPool
    from carrel.uri.intervals import Intervals
    from carrel.uri.parse import file_uri
    from carrel.wire.skills import Skill, SkillResource

__all__ = [
    "Change",
    "ChangeItems",
    "Count",
    "Documents",
    "Events",
    "Filter",
    "Folder",
    "ForwardingProvider",
    "Glob",
    "Globs",
    "Hit",
    "InMemoryStore",
    "Interest",
    "Intervals",
    "Namespace",
    "Original",
    "Page",
    "Provider",
    "RedactedStruct",
    "Rename",
    "Request",
    "ResourcesAsTools",
    "Secret",
    "Size",
    "Skill",
    "SkillResource",
    "ThreadPool",
    "Transform",
    "file_uri",
    "open",
    "scheme_of",
    "trigger_sql",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.wire.skills": (
        "Skill",
        "SkillResource",
    ),
    "carrel.uri.intervals": ("Intervals",),
    "carrel.threads": ("ThreadPool",),
    "carrel.sources.documents.documents": (
        "Documents",
        "Original",
    ),
    "carrel.sources.databases.watch": ("trigger_sql",),
    "carrel.sources.options": (
        "Count",
        "Folder",
        "Glob",
        "Globs",
        "RedactedStruct",
        "Secret",
        "Size",
    ),
    "carrel.sources.stores.memory": ("InMemoryStore",),
    "carrel.uri.parse": ("file_uri",),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
