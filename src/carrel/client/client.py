"""One client for servers of every revision.

https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET, Raw

from carrel.client.cached_session import CachedSession
from carrel.client.connection import Progress
from carrel.client.endpoints import Target, find_endpoint
from carrel.client.handlers import ClientHandlers, FormHandler, PageHandler, RootsSource, SampleHandler
from carrel.client.known_tools import KnownTools
from carrel.client.retry import Retries
from carrel.client.session import LogReceiver, Wait
from carrel.client.watch import Watch
from carrel.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    ConfigError,
    PeerError,
    RequestTimeout,
    ResourceError,
    ResourceNotFound,
)
from carrel.log import Log
from carrel.protocol import VERSION
from carrel.protocol.client import Notification
from carrel.protocol.encoding import encode
from carrel.protocol.extension import Extension
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.revisions import REVISIONS
from carrel.transports.client.transport import Credentials
from carrel.wire.base import Implementation, LoggingLevel, PageParams, Params
from carrel.wire.completion import (
    CompleteParams,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.prompts import GetPromptParams, GetPromptResult, Prompt
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceParams,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from carrel.wire.tasks import CreateTaskResult, DetailedTask, ListTasksParams, TaskParams
from carrel.wire.tools import CallToolParams, CallToolResult, TaskRequest, Tool
from carrel.wire.utilities import SEVERITY, SetLevelParams

if TYPE_CHECKING:
    from carrel.client.cache import Cache
    from carrel.client.skills import Skill
    from carrel.client.tasks import ToolTask

__all__ = ["Client"]

logger = Log("carrel.client")

Contents: TypeAlias = TextResourceContents | BlobResourceContents


class Client(CachedSession):
    """A connection to one server, which is made again when it was lost.

        async with Client("https://example.org/mcp") as client:
            async for resource in client.resources(): ...
            contents = await client.read("book://lem/solaris")

    Use it as a context manager. All of it may be used by many tasks at the same time.

    Args:
        target: a URL, a command as a list, or a ``carrel.Server`` in this process.
        name: what this client is called, for the server; with ``version`` and ``title``.
        revision: the only revision to speak, instead of the newest that both sides know.
        timeout: seconds that an answer may take; it begins anew with every progress notification. None: for ever.
        patience: seconds after which a server that says nothing at first is taken for one that waits for a handshake.
        retries: how often, and when, to ask again what may be asked again.
        elicit_form: fills in forms; without it, servers are told that nobody does. See ``answering.Form``.
        elicit_url: lets the user visit pages. See ``answering.Page``.
        sample: asks a model; with ``sample_tools``, one that uses tools.
        roots: the directories and files that servers may work on, or a function that returns them.
        log: gets the log messages of the server, from ``log_level`` up.
        extensions: settings by the identifier of each further extension that is declared.
        cache: keeps what servers allow to be kept. See ``carrel.client.cache``.
        fetch_web: resources with https: URIs are fetched from where they are, without the server.
        headers, auth: for URLs: headers of every request; a token, or credentials such as those of
            ``carrel.security.client``.
        env, cwd, stderr: for commands: environment variables, working directory, and what gets each line that the
            server writes to its standard error.

    Raises:
        ConfigError: the options make no sense.
    """

    def __init__(
        self,
        target: Target,
        *,
        name: str = "carrel",
        version: str | None = None,
        title: str | None = None,
        revision: str | None = None,
        timeout: float | None = 60.0,
        patience: float = 5.0,
        retries: Retries | None = None,
        elicit_form: FormHandler | None = None,
        elicit_url: PageHandler | None = None,
        sample: SampleHandler | None = None,
        sample_tools: bool = False,
        roots: RootsSource | None = None,
        log: LogReceiver | None = None,
        log_level: LoggingLevel | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        cache: Cache | None = None,
        fetch_web: bool = False,
        headers: Mapping[str, str] | None = None,
        auth: Credentials | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Callable[[str], None] | None = None,
    ) -> None:
        if revision is not None and revision not in REVISIONS:
            raise ConfigError(f"there is no revision {revision!r}; they are {', '.join(REVISIONS)}")
        check_level(log_level)
        for identifier in extensions or ():
            Extension(name=identifier)  # finds out whether it is one
        super().__init__(
            find_endpoint(target, headers=headers, auth=auth, env=env, cwd=cwd, stderr=stderr),
            Implementation(name, VERSION if version is None else version, title=UNSET if title is None else title),
            ClientHandlers(
                elicit_form=elicit_form, elicit_url=elicit_url, sample=sample, sample_tools=sample_tools, roots=roots
            ),
            {
                TASKS.name: {},
                **({} if auth is None or isinstance(auth, str) else auth.extensions),
                **(extensions or {}),
            },
            wanted=None if revision is None else REVISIONS[revision],
            timeout=timeout,
            patience=patience,
            retries=Retries() if retries is None else retries,
            log=log,
            log_level=log_level,
            cache=cache,
        )
        self._fetch_web = fetch_web
        self._tools = KnownTools()

    async def __aenter__(self) -> Client:
        self._open = True
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """End every watch, fail every request that waits, and let go of the server. May be called more than once."""
        await super().close()
        if self._way.credentials is not None:
            await self._way.credentials.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Resources

    async def resources(self) -> AsyncIterator[Resource]:
        """Iterate over the resources. Pages are fetched as they are needed."""
        async for page in self.pages("list_resources", PageParams()):
            for resource in page.resources:
                yield resource

    async def resource_templates(self) -> AsyncIterator[ResourceTemplate]:
        """Iterate over the resource templates."""
        async for page in self.pages("list_resource_templates", PageParams()):
            for template in page.resource_templates:
                yield template

    async def directory(self, uri: str) -> AsyncIterator[Resource]:
        """Iterate over what is directly inside a directory.

        https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx

        Raises:
            MethodNotFound: the server has no directories.
            PeerError: there is no such directory.
        """
        from carrel.client.skills import read_directory

        async for resource in read_directory(self, uri):
            yield resource

    async def read(
        self,
        uri: str,
        *,
        timeout: Wait = UNSET,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> list[Contents]:
        """Read a resource: text is str, all else is bytes.

        https://modelcontextprotocol.io/specification/2026-07-28/server/resources#reading-resources

        Raises:
            ResourceNotFound: there is no such resource.
            PeerError: the server refuses.
        """
        if self._fetch_web and uri[:8].lower() == "https://":
            from carrel.client.web_resources import fetch

            try:
                return await fetch(uri)
            except (ResourceError, RequestTimeout) as error:
                logger.info("asked of the server: %s", error)
        params = ReadResourceParams(uri=uri)
        try:
            if self._cache is None or progress is not None or meta is not None:
                result = await self.request("read_resource", params, timeout=timeout, progress=progress, meta=meta)
            else:
                result = await self._cached("read_resource", params, timeout=timeout)
        except PeerError as error:
            if is_not_found(error, uri, self._facts.revision.not_found):
                raise ResourceNotFound(uri) from error
            raise
        contents: list[Contents] = result.contents
        return contents

    def watch(self, *uris: str, lists: Iterable[Literal["resources", "tools", "prompts"]] = ()) -> Watch:
        """Hear of changes of resources, and of lists.

            async with client.watch("book://lem/solaris", lists=["resources"]) as changes:
                async for change in changes: ...

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions

        Raises:
            MethodNotFound: the server has no subscriptions (when the watch is entered).
        """
        return Watch(self, uris, tuple(lists))

    # Tools

    async def tools(self) -> AsyncIterator[Tool]:
        """Iterate over the tools. What they say of themselves are hints, and no permissions."""
        mirrored = (await self.connect()).transport.mirrors and self.stateless
        async for page in self.pages("list_tools", PageParams()):
            for tool in self._tools.take(page.tools, mirrored=mirrored):
                yield tool
        self._tools.complete = True

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Wait = UNSET,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> CallToolResult:
        """Call a tool and return what it gave back; ``is_error`` says that it failed.

        A call that becomes a task is waited for. ``repeatable``: it may be made again after the connection was lost.

        https://modelcontextprotocol.io/specification/2026-07-28/server/tools#calling-tools

        Raises:
            PeerError: there is no such tool, or the arguments do not fit.
            InvalidMessage: the result is not what the tool's output schema says.
        """
        if self._has_tasks and await self.may_be_task(name, required=True):
            result: Any = await (await self.start_tool(name, arguments, meta=meta)).result()
        else:
            params = CallToolParams(name=name, arguments=UNSET if arguments is None else Raw(encode(arguments)))
            result = await self.send_call(
                params, arguments, timeout=timeout, progress=progress, meta=meta, repeatable=repeatable
            )
            if type(result) is DetailedTask:
                from carrel.client.tasks import ToolTask

                result = await ToolTask(self, result).result()
        self._tools.check(name, result)
        return result  # type: ignore[no-any-return]

    async def send_call(self, params: CallToolParams, arguments: Mapping[str, Any] | None, **options: Any) -> Any:
        """Send the call of a tool; over HTTP with what its schema wants repeated in headers."""
        link = self._link
        if link is None or link.error is not None:
            link = await self.connect()
        if not (link.transport.mirrors and self.stateless):
            return await self.request("call_tool", params, **options)
        if not self._tools.complete and params.name not in self._tools:
            await self._list_tools()
        return await self.request(
            "call_tool", params, headers=lambda: self._tools.headers(params.name, arguments or {}), **options
        )

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolTask:
        """Call a tool as a task, if the server can: what comes back can be asked, awaited and cancelled.

        ``ttl`` is how long the server is asked to keep the task, in seconds (2025-11-25; later the server decides).

        https://modelcontextprotocol.io/extensions/tasks/overview
        """
        from carrel.client.tasks import ToolTask

        params = CallToolParams(name=name, arguments=UNSET if arguments is None else Raw(encode(arguments)))
        wanted = await self.may_be_task(name)
        if wanted:
            params.task = TaskRequest(ttl=UNSET if ttl is None else int(ttl * 1000))
        answer = await self.send_call(params, arguments, meta=meta, result=CreateTaskResult if wanted else None)
        return ToolTask(self, answer.task if isinstance(answer, CreateTaskResult) else answer)

    async def task(self, id: str) -> ToolTask:
        """Return a task that was started before, such as by another process.

        Raises:
            PeerError: there is no such task, or it is somebody else's.
        """
        from carrel.client.tasks import ToolTask

        return ToolTask(self, await self.request("get_task", TaskParams(task_id=id)))

    async def tasks(self) -> AsyncIterator[ToolTask]:
        """Iterate over the tasks that the server keeps for us (2025-11-25).

        Raises:
            MethodNotFound: the server's revision cannot list them.
        """
        from carrel.client.tasks import ToolTask

        async for page in self.pages("list_tasks", ListTasksParams()):
            for task in page.tasks:
                yield ToolTask(self, task)

    async def may_be_task(self, name: str, *, required: bool = False) -> bool:
        """Say whether the calls of a tool may be tasks as sessions have them; or, whether they have to be.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
        """
        link = await self.connect()
        tasks = self.capabilities.tasks
        if self.stateless or tasks is UNSET or not link.connection.knows("fetch_task_result"):
            return False
        if "call" not in tasks.get("requests", {}).get("tools", {}):
            return False
        if name not in self._tools and not self._tools.complete:
            await self._list_tools()
        return self._tools.tasks(name) in (("required",) if required else ("required", "optional"))

    async def _list_tools(self) -> None:
        async for _ in self.tools():
            pass

    # Skills

    async def skills(self) -> AsyncIterator[Skill]:
        """Iterate over the skills that the server lists. None of their files is read.

        https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx

        Raises:
            MethodNotFound: the server has no skills.
        """
        from carrel.client.skills import list_skills

        async for skill in list_skills(self):
            yield skill

    async def skill(self, uri: str) -> Skill:
        """Return the skill whose SKILL.md has this URI. Its files are read when they are asked for, and verified.

        Raises:
            MethodNotFound: the server has no skills.
            ResourceNotFound: there is no such skill.
        """
        from carrel.client.skills import get_skill

        return await get_skill(self, uri)

    async def declared(self) -> Mapping[str, Any]:
        """Return the settings of the extensions that the server has declared."""
        await self.connect()
        return {} if self.capabilities.extensions is UNSET else self.capabilities.extensions

    # Prompts

    async def prompts(self) -> AsyncIterator[Prompt]:
        """Iterate over the prompts."""
        async for page in self.pages("list_prompts", PageParams()):
            for prompt in page.prompts:
                yield prompt

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: Wait = UNSET
    ) -> GetPromptResult:
        """Return the messages of a prompt, filled in.

        Raises:
            PeerError: there is no such prompt, or an argument is missing.
        """
        params = GetPromptParams(name=name, arguments=UNSET if arguments is None else dict(arguments))
        return await self.request("get_prompt", params, timeout=timeout)  # type: ignore[no-any-return]

    async def complete(
        self,
        reference: Prompt | ResourceTemplate | PromptReference | ResourceTemplateReference,
        argument: str,
        value: str = "",
        context: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return suggestions for an argument of a prompt or a variable of a template, of which ``value`` is typed.

        ``context`` are the arguments that are already there.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
        """
        if isinstance(reference, Prompt):
            reference = PromptReference(name=reference.name)
        elif isinstance(reference, ResourceTemplate):
            reference = ResourceTemplateReference(uri=reference.uri_template)
        params = CompleteParams(
            ref=reference,
            argument=CompletionArgument(name=argument, value=value),
            context=CompletionContext(arguments=dict(context)) if context else UNSET,
        )
        result = await self.request("complete", params)
        return result.completion  # type: ignore[no-any-return]

    # Everything else

    async def ping(self, *, timeout: Wait = UNSET) -> None:
        """Find out whether the server answers."""
        await self.connect()
        await self.request("discover" if self.stateless else "ping", Params(), timeout=timeout)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Ask for log messages from this level up.

        Raises:
            MethodNotFound: the server does not log.
            ConfigError: there is no such level.
        """
        check_level(level)
        link = await self.connect()
        self._log_level = level
        if self.stateless:
            link.connection.set_log_level(level)
        else:
            await self.request("set_level", SetLevelParams(level=level))

    async def change_roots(self, roots: RootsSource) -> None:
        """Replace the roots, and tell the server so, where it wants to know.

        Raises:
            ConfigError: the client was made without roots.
        """
        self._answers.change_roots(roots)
        link = await self.connect()
        if not self.stateless:
            link.announce("roots_list_changed")

    # What has changed

    def changed(self, notice: Notification) -> None:
        """Forget what a notification says has changed."""
        if notice.event == "tools_list_changed":
            self._tools.forget()
        super().changed(notice)

    def _renewed(self) -> None:
        self._tools.forget()
        super()._renewed()

    async def _mend(self, error: PeerError, operation: str) -> bool:
        if error.code == HEADER_MISMATCH and operation == "call_tool":
            self._tools.forget()
            await self._list_tools()
            return True
        return await super()._mend(error, operation)


def check_level(level: LoggingLevel | None) -> None:
    if level is not None and level not in SEVERITY:
        raise ConfigError(f"there is no log level {level!r}; they are {', '.join(SEVERITY)}")


def is_not_found(error: PeerError, uri: str, code: int) -> bool:
    """Say whether an error says that there is no such resource.

    https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
    """
    if error.code == -32002:
        return True
    about = error.data.get("uri") if isinstance(error.data, dict) else None
    return error.code == code == INVALID_PARAMS and about == uri
