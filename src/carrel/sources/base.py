"""Base of the ready-made sources: templates and the completion of their variables, search in one page."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.provider import Hit, Page, Provider, Request
from carrel.errors import InvalidCursor, InvalidParams
from carrel.sources.cursor import page_of
from carrel.uri.template import UriTemplate
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.resources import ResourceTemplate

if TYPE_CHECKING:
    from carrel.sources.documents.documents import Documents, Original

__all__ = ["MAX_SUGGESTIONS", "BaseSource", "Variable"]

MAX_SUGGESTIONS = 100


class Variable(NamedTuple):
    """Variable to complete: its template, its name, the typed text, and the values of other variables."""

    template: ResourceTemplate
    name: str
    value: str
    context: Mapping[str, str]


class BaseSource(Provider):
    """Base of a source. It implements the methods below by ``_templates``, ``_suggest`` and ``_hits``."""

    _documents: Documents | None = None
    """Documents whose text is offered; ``_original`` loads one."""

    def _templates(self) -> Sequence[ResourceTemplate]:
        """Return the templates."""
        return ()

    def _suggest(self, variable: Variable, request: Request) -> MaybeAwaitable[Sequence[str] | Completion]:
        """Return suggestions for a variable, best first."""
        return ()

    def _hits(self, query: str, limit: int, request: Request) -> MaybeAwaitable[Sequence[Hit]]:
        """Return up to ``limit`` resources that match a query, best first."""
        return ()

    async def _original(self, uri: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
        """Return a resource of at most ``limit`` bytes as a document."""
        raise NotImplementedError

    def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the templates."""
        return page_of(self._templates(), request, lambda template: template.uri_template)

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return suggestions for a variable of one of the templates."""
        uri = getattr(reference, "uri", None)
        template = next((one for one in self._templates() if one.uri_template == uri), None)
        if template is None:
            raise InvalidParams("Invalid params: ref: there is no such template", parameter="ref")
        names = UriTemplate(template.uri_template).names
        if argument not in names and argument not in map(unquote, names):
            raise InvalidParams(
                f"Invalid params: the template has no variable {argument[:200]!r}", parameter="argument"
            )
        documents = self._documents
        if documents is not None and argument in documents.variables:
            return await documents.complete(template.uri_template, value, context, request, self._original)
        found: Completion | Sequence[str] = await resolved(
            self._suggest(Variable(template, argument, value, context), request)
        )
        if isinstance(found, Completion):
            return found
        return Completion(list(found[:MAX_SUGGESTIONS]), total=len(found), has_more=len(found) > MAX_SUGGESTIONS)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources that match a query, best first, in one page."""
        if request.cursor is not None:
            raise InvalidCursor
        return Page(await resolved(self._hits(query, max(request.limit, 0), request)))
