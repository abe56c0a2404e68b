"""Tools of synchronous clients and hosts in the formats of vendors and of agent frameworks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from carrel.agents import ToolUse, calls
from carrel.agents import VendorTools as AsyncVendorTools
from carrel.agents import tools_of as async_tools_of
from carrel.agents.formats import Vendor
from carrel.sync.client import Client
from carrel.sync.loop import awaited, call_in_thread, run
from carrel.sync.options import CallOptions, async_call_options
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ReadResourceResult, ResourceContents
from carrel.wire.tools import Tool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from llama_index.core.tools import AsyncBaseTool
    from pydantic_ai.toolsets import AbstractToolset

__all__ = ["Approve", "VendorTools", "in_thread", "tools_of", "waiting"]

#: As of ``carrel.agents``; a plain function may block.
Approve: TypeAlias = calls.Approve


class VendorTools(list[Any]):
    """Tools in the format of a vendor: ``carrel.agents.VendorTools`` without ``await``."""

    def __init__(self, tools: AsyncVendorTools) -> None:
        super().__init__(tools)
        self._tools = tools

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools, with their annotations and all else, by the name that the model sees."""
        return self._tools.tools

    def refresh(self) -> bool:
        """Read the lists of the servers again if they may have changed; return whether they have."""
        changed = run(self._tools.refresh())
        self[:] = self._tools
        return changed

    def run(self, response: Any, *, ignore: Collection[str] = ()) -> list[Any]:
        """Make the calls in a response, at the same time, and return what to send next after the response."""
        messages = run(self._tools.run(response, ignore=ignore))
        self[:] = self._tools
        return messages

    def content(self, blocks: ReadResourceResult | Iterable[ContentBlock | ResourceContents]) -> list[Any]:
        """Return what reading a resource returned, or content blocks, as content of a message of the user."""
        return self._tools.content(blocks)


class FormatOptions(TypedDict, total=False):
    """Options of ``tools_of``, as of ``carrel.agents.tools_of``."""

    approve: Approve | None
    prefix: bool
    description_limit: int | None
    options: CallOptions | None


@overload
def tools_of(client: Client, format: Vendor, **how: Unpack[FormatOptions]) -> VendorTools: ...
@overload
def tools_of(client: Client, format: Literal["langchain"], **how: Unpack[FormatOptions]) -> list[BaseTool]: ...
@overload
def tools_of(client: Client, format: Literal["llamaindex"], **how: Unpack[FormatOptions]) -> list[AsyncBaseTool]: ...
@overload
def tools_of(client: Client, format: Literal["pydantic-ai"], **how: Unpack[FormatOptions]) -> AbstractToolset[Any]: ...
def tools_of(
    client: Client,
    format: Any,
    *,
    approve: Approve | None = None,
    prefix: bool = False,
    description_limit: int | None = None,
    options: CallOptions | None = None,
) -> Any:
    """Return the tools of a client in the format of a vendor or of a framework. See ``carrel.agents.tools_of``."""
    work = async_tools_of(
        client.client,
        format,
        approve=in_thread(approve),
        prefix=prefix,
        description_limit=description_limit,
        options=None if options is None else async_call_options(options),
    )
    return waiting(run(work))


def waiting(tools: Any) -> Any:
    """Return blocking versions of a vendor's tools; tools for frameworks block already."""
    return VendorTools(tools) if isinstance(tools, AsyncVendorTools) else tools


def in_thread(approve: Approve | None) -> Approve | None:
    """Return an approval whose plain function runs in a thread."""
    if approve is None or iscoroutinefunction(approve):
        return approve
    function: Callable[[ToolUse], Any] = approve

    async def ask(use: ToolUse) -> bool | str:
        return await awaited(await call_in_thread(function, use))

    return ask
