"""Skills of a server: listed, loaded file by file on demand, and verified by size and SHA-256 digest.

A skill is identified by the server *and* its URI: another server may have another skill with the same URI or name. The
content of a skill is untrusted text of a server for a model. Verification only shows that it matches the server's list.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from copy import deepcopy
from hashlib import sha256
from typing import Any, Protocol, TypeVar

import msgspec

from carrel.client.handlers import ClientCall
from carrel.client.not_found import is_not_found
from carrel.client.results import PagedList
from carrel.client.skill_uris import decode, encode_name, is_same, path_of, resolve
from carrel.errors import (
    INVALID_PARAMS,
    ConfigError,
    MethodNotFound,
    PeerError,
    ResourceForbidden,
    ResourceMismatch,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.media_types import DIRECTORY
from carrel.protocol.extensions.frontmatter import FrontmatterError, check_skill, read_frontmatter
from carrel.protocol.extensions.skills import (
    GET_SKILL,
    LIST_SKILLS,
    MAX_BYTES,
    MAX_FILES,
    READ_DIRECTORY,
    SKILL_FILE,
    SKILLS,
)
from carrel.protocol.methods import READ_RESOURCE, RequestType
from carrel.uri.parse import encode_path
from carrel.wire.base import PageParams, Params, Result
from carrel.wire.resources import (
    ReadResourceParams,
    Resource,
    ResourceContents,
    TextResourceContents,
)
from carrel.wire.skills import (
    GetSkillParams,
    ReadDirectoryParams,
    SkillResource,
)
from carrel.wire.skills import Skill as SkillEntry

__all__ = ["SkillServer", "SkillSnapshot", "get_skill", "list_directory", "list_skills"]

R = TypeVar("R", bound=Result)
P = TypeVar("P", bound=Params)

DIGEST = "sha256:"
HEXADECIMAL = "0123456789abcdef"


class SkillServer(Protocol):
    """Interface of the client that skills call."""

    @property
    def name(self) -> str:
        """The host's name for the server, not the one that the server declares."""

    async def declared(self) -> Mapping[str, Any]:
        """Return the settings of the extensions that the server has declared."""

    async def request(self, call: ClientCall[R]) -> R:
        """Send a request to the server, bypassing the cache, and return its result."""

    def pages(self, request: RequestType[P, R], params: P) -> AsyncIterator[R]:
        """Iterate over the pages of a list, possibly from the cache."""


def list_skills(server: SkillServer) -> PagedList[SkillSnapshot]:
    """List the skills that a server lists, which may be fewer than it has, without reading their files.

    Raises:
        MethodNotFound: the server does not support skills.
    """

    async def pages() -> AsyncIterator[list[SkillSnapshot]]:
        await _require(server)
        async for page in server.pages(LIST_SKILLS, PageParams()):
            yield [SkillSnapshot(server, entry) for entry in page.skills]

    return PagedList(pages)


async def get_skill(server: SkillServer, uri: str) -> SkillSnapshot:
    """Return the current skill whose SKILL.md has this URI, whether or not it is listed, without reading its files.

    Raises:
        MethodNotFound: the server does not support skills.
        ResourceNotFound: there is no such skill.
        ResourceMismatch: the server responded with another skill.
    """
    await _require(server)
    try:
        entry = (await server.request(ClientCall(GET_SKILL, GetSkillParams(uri=uri)))).skill
    except PeerError as error:
        if error.code == INVALID_PARAMS:
            raise ResourceNotFound(uri, error.message) from error
        raise
    if not is_same(entry.uri, uri):
        raise ResourceMismatch(uri, f"The server answered with {entry.uri[:1000]}", "entry")
    return SkillSnapshot(server, entry)


def list_directory(server: SkillServer, uri: str) -> PagedList[Resource]:
    """List the direct children of a directory of a server, in a skill or not.

    Raises:
        MethodNotFound: the server does not support reading directories.
        PeerError: there is no such directory.
    """

    async def pages() -> AsyncIterator[list[Resource]]:
        if not (await _require(server)).get("directoryRead"):
            raise MethodNotFound(f"{server.name} does not support reading directories")
        async for page in server.pages(READ_DIRECTORY, ReadDirectoryParams(uri=uri)):
            yield page.resources

    return PagedList(pages)


async def _require(server: SkillServer) -> Mapping[str, Any]:
    """Return the settings of the skills extension that the server declares.

    Raises:
        MethodNotFound: the server does not declare it.
    """
    settings = (await server.declared()).get(SKILLS.name)
    if not isinstance(settings, Mapping):
        raise MethodNotFound(f"{server.name} has no skills: it does not declare {SKILLS.name}")
    return settings


class SkillSnapshot:
    """Snapshot of a skill, as the server described it when it was listed.

    Keep this object for as long as a model acts on the skill: only the files that it lists can be read. When the skill
    has changed, reading fails, and ``refresh`` returns a new object. Files that were read are cached in memory.
    """

    def __init__(self, server: SkillServer, entry: SkillEntry) -> None:
        self._server = server
        self._root = entry.uri.removesuffix(f"/{SKILL_FILE}")
        self._paths: dict[str, SkillResource] = {}
        self._held: dict[str, ResourceContents] = {}
        self._sizes: dict[str, int] = {}  # of files of a dynamic skill that were read
        self.uri = entry.uri
        """The URI of SKILL.md, which identifies the skill at the server."""
        self.frontmatter = entry.frontmatter
        """All frontmatter fields. They grant nothing: ``allowed-tools`` is only a request."""
        self.files: tuple[SkillResource, ...] | None = None
        """All files, with size and digest; None if the skill is ``dynamic``."""
        if entry.resources != "dynamic":
            self.files = tuple(entry.resources)
        self.problem: str | None = None
        """Why the skill cannot be used; None if no problem is known before its files are read."""
        try:
            self._check()
        except FrontmatterError as error:
            self.problem = str(error)

    def __repr__(self) -> str:
        return f"<Skill {self.uri} of {self._server.name}>"

    @property
    def identity(self) -> tuple[str, str]:
        """Unique identity of the skill: the host's name for the server, and the URI."""
        return self._server.name, self.uri

    @property
    def name(self) -> str:
        """The skill's name, which is not unique."""
        return str(self.frontmatter.get("name", ""))

    @property
    def description(self) -> str:
        """The server's description of the skill and when to use it."""
        return str(self.frontmatter.get("description", ""))

    @property
    def dynamic(self) -> bool:
        """Whether files are generated when they are read, and so can be neither verified nor approved permanently."""
        return self.files is None

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 fingerprint of the listed files, to bind an approval to; None if the skill is dynamic."""
        if self.files is None:
            return None
        listed = sorted((file.uri, file.digest) for file in self.files)
        return DIGEST + sha256(msgspec.json.encode(listed)).hexdigest()

    def _check(self) -> None:
        """Validate the skill's URI, frontmatter and list of files, without reading any.

        Raises:
            FrontmatterError: the skill is invalid.
        """
        segments = path_of(self.uri, self._root.rpartition("/")[0])
        if self._root == self.uri or len(segments) != 2:
            raise FrontmatterError(f"its URI does not end with its name and {SKILL_FILE}")
        check_skill(self.frontmatter, segments[0])
        if self.files is None:
            return
        total = sum(file.size for file in self.files)
        if len(self.files) > MAX_FILES or total > MAX_BYTES:
            count = f"{len(self.files):,} files and {total:,} bytes"
            raise FrontmatterError(f"it has {count}; {MAX_FILES} and {MAX_BYTES:,} are the limits")
        for file in self.files:
            segments = path_of(file.uri, self._root)
            if not segments:
                raise FrontmatterError(f"it lists {file.uri[:200]}, which is not a file in its directory")
            path = "/".join(segments)
            if path in self._paths:
                raise FrontmatterError(f"it lists {path[:200]} twice")
            digits = file.digest.removeprefix(DIGEST)
            if file.size < 0 or len(digits) != 64 or file.digest == digits or not set(digits) <= set(HEXADECIMAL):
                raise FrontmatterError(f"the size or the digest that it lists for {path[:200]} is not valid")
            self._paths[path] = file
        if SKILL_FILE not in self._paths or self._paths[SKILL_FILE].uri != self.uri:
            raise FrontmatterError(f"it does not list its {SKILL_FILE}")

    # Reading

    async def instructions(self) -> str:
        """Return the text of SKILL.md, after verifying its size, digest and frontmatter against the list.

        Raises:
            ResourceMismatch: the file differs from its entry in the list, or the skill has a ``problem``.
            ResourceNotFound: the file no longer exists.
            ConfigError: PyYAML is not installed.
        """
        contents = await self._load()
        assert isinstance(contents, TextResourceContents)
        return contents.text

    async def read(self, path: str) -> ResourceContents:
        """Read a file of the skill and verify it. SKILL.md is loaded and verified first, if it has not been yet.

        ``path`` is relative to the directory of SKILL.md, as in the instructions; or the URI of a file.

        Raises:
            ResourceForbidden: the path leads out of the skill.
            ResourceMismatch: the file is not listed, or it or SKILL.md differs from its entry in the list.
            ResourceNotFound: the file no longer exists.
            ResourceTooLarge: the files read of a dynamic skill exceed the size limit of a skill.
            ConfigError: PyYAML is not installed.
        """
        uri, listed = self._find(path)
        if uri == self.uri:
            return own(await self._load())
        await self._load()
        held = self._held.get(uri)
        if held is None:
            held = await self._fetch(uri, listed)
            if listed is not None:
                self._held[uri] = held
        return own(held)

    async def _load(self) -> ResourceContents:
        if self.problem is not None:
            raise ResourceMismatch(self.uri, f"The skill cannot be used, because {self.problem}", "entry")
        held = self._held.get(self.uri)
        if held is not None:
            return held
        try:
            import yaml  # type: ignore[import-untyped]  # noqa: F401
        except ImportError:
            raise ConfigError("Skills need the package PyYAML: pip install 'carrel[client]'") from None
        contents = await self._fetch(self.uri, self._paths.get(SKILL_FILE))
        data = bytes_of(contents)
        try:
            written = read_frontmatter(data)
            text = data.decode()
        except (FrontmatterError, UnicodeDecodeError) as error:
            raise ResourceMismatch(self.uri, f"SKILL.md cannot be used: {error}", "frontmatter") from None
        names = [name for name in {**self.frontmatter, **written} if not have_same(name, self.frontmatter, written)]
        if names:
            shown = ", ".join(names)[:200]
            raise ResourceMismatch(
                self.uri, f"The frontmatter of SKILL.md differs from the list in {shown}", "frontmatter"
            )
        # As text, even if the server sent a blob.
        held = TextResourceContents(self.uri, text, mime_type=contents.mime_type, meta=contents.meta)
        if self.files is not None:
            self._held[self.uri] = held
        return held

    async def _fetch(self, uri: str, listed: SkillResource | None) -> ResourceContents:
        """Fetch one file, and verify its size and digest if it is listed."""
        try:
            call = ClientCall(READ_RESOURCE, ReadResourceParams(uri=uri))
            result = await self._server.request(call)
        except PeerError as error:
            if is_not_found(error, uri):
                raise ResourceNotFound(uri, "The server no longer has this file of the skill") from error
            raise
        if len(result.contents) != 1:
            raise ResourceMismatch(
                uri, f"The server answered with {len(result.contents)} files instead of one", "contents"
            )
        contents = result.contents[0]
        data = bytes_of(contents)
        if listed is None:
            self._sizes[uri] = len(data)
            if sum(self._sizes.values()) > MAX_BYTES:
                raise ResourceTooLarge(uri, f"The skill has more than {MAX_BYTES:,} bytes, which is the limit")
        elif len(data) != listed.size:
            raise ResourceMismatch(uri, f"The file has {len(data):,} bytes, but the list says {listed.size:,}", "size")
        elif DIGEST + sha256(data).hexdigest() != listed.digest:
            raise ResourceMismatch(uri, "The digest of the file differs from the listed digest", "digest")
        return contents

    def _find(self, path: str) -> tuple[str, SkillResource | None]:
        """Return the URI of a file and its entry in the list, which is None in a dynamic skill."""
        segments = path_of(path, self._root) or resolve(path)
        if not segments:
            raise ResourceForbidden(path[:1000], f"Not a file in the directory of {self.uri}")
        if self.files is None:
            return f"{self._root}/{encode_path(segments)}", None
        # Links in Markdown are percent-encoded, paths in texts are not.
        for candidate in (segments, resolve(decode(path))):
            listed = self._paths.get("/".join(candidate))
            if listed is not None:
                return listed.uri, listed
        raise ResourceMismatch(f"{self._root}/{encode_path(segments)}", "The skill does not list this file", "unlisted")

    # Directories

    async def directory(self, path: str = "") -> list[Resource]:
        """Return the direct children of a directory of the skill, computed from the listed files without a request.

        Only a dynamic skill needs a request. ``path`` is relative to the directory of SKILL.md, the default.

        Raises:
            ResourceForbidden: the path leads out of the skill.
            ResourceNotFound: there is no such directory.
            MethodNotFound: the skill is dynamic, and the server does not support reading directories.
        """
        segments = resolve(path.removesuffix("/")) if path not in ("", ".", "./") else ()
        if path not in ("", ".", "./") and not segments:
            raise ResourceForbidden(path[:1000], f"Not a directory of the skill {self.uri}")
        uri = "/".join([self._root, *map(encode_name, segments)])
        if self.files is None:
            return await self._ask_for_directory(uri)
        found: dict[str, Resource] = {}
        for name, file in self._paths.items():
            parts = tuple(name.split("/"))
            if parts[: len(segments)] != segments or len(parts) == len(segments):
                continue
            child = parts[len(segments)]
            if len(parts) == len(segments) + 1:
                found[child] = Resource(uri=file.uri, name=child, size=file.size)
            else:
                found[child] = Resource(uri=f"{uri}/{encode_name(child)}", name=child, mime_type=DIRECTORY)
        if not found:
            raise ResourceNotFound(uri, "The skill has no such directory")
        return list(found.values())

    async def _ask_for_directory(self, uri: str) -> list[Resource]:
        try:
            found = await list_directory(self._server, uri)
        except PeerError as error:
            if error.code == INVALID_PARAMS:
                raise ResourceNotFound(uri, error.message) from error
            raise
        return [resource for resource in found if len(path_of(resource.uri, uri)) == 1]

    async def refresh(self) -> SkillSnapshot:
        """Return the current version of the skill. If its ``fingerprint`` differs, it needs a new approval.

        Raises:
            ResourceNotFound: the skill no longer exists.
        """
        return await get_skill(self._server, self.uri)


def bytes_of(contents: ResourceContents) -> bytes:
    return contents.text.encode() if isinstance(contents, TextResourceContents) else contents.blob


def own(contents: ResourceContents) -> ResourceContents:
    """Return a copy of contents that the caller may change."""
    return msgspec.structs.replace(contents, meta=None if contents.meta is None else deepcopy(contents.meta))


def have_same(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return name in one and name in other and is_equal(one[name], other[name])


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal in JSON, where true is not 1, but 1.0 is."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
