"""Requests of an upstream server that are forwarded to the client unchanged, and their unchanged answers."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from carrel.errors import ConfigError
from carrel.protocol import unknown
from carrel.protocol.revision import Revision
from carrel.server.elicitation.client_requests import ClientRequest, check_page, checked_sampling, with_file_roots
from carrel.server.elicitation.forms import form_of
from carrel.wire.base import Wire, prepared
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitResult,
    ListRootsParams,
    ListRootsResult,
    ServerRequestParams,
)

__all__ = ["forwarded_request"]

R = TypeVar("R", bound=Wire)


def forwarded_request(params: ServerRequestParams, revision: Revision) -> ClientRequest:
    """Return an upstream request, to be forwarded unchanged to a client of a revision. Its answer is a whole result.

    Raises:
        ValueError: the form is not one, the URL of the page is not allowed, or the messages are not in order.
    """
    if isinstance(params, CreateMessageParams):
        request = checked_sampling(unknown.distribute(params), revision)
        return msgspec.structs.replace(request, read=lambda answer: whole(CreateMessageResult, answer))
    if isinstance(params, ListRootsParams):
        return ClientRequest("list_roots", params, {"roots": {}}, whole_roots, again=False)
    if params.mode == "url":
        check_page(params.url or "")
        if revision.stateless:
            params = msgspec.structs.replace(params, elicitation_id=None)
        operation, mode = "elicit_page", "url"
    else:
        fields = (params.requested_schema or {}).get("properties")
        if not isinstance(fields, dict) or not all(isinstance(field, dict) for field in fields.values()):
            raise ValueError("the schema of a form has properties, each of them a schema")
        several = any(field.get("type") == "array" for field in fields.values())
        params = msgspec.structs.replace(params, mode=None)
        operation, mode = "elicit_several" if several else "elicit", "form"
    capabilities: dict[str, Any] = {"elicitation": {mode: {}}}
    return ClientRequest(operation, params, capabilities, partial(read_elicitation, params.requested_schema))


def read_elicitation(schema: dict[str, Any] | None, answer: Any) -> ElicitResult:
    """Return the answer to an elicitation, validated if its form is supported here.

    Raises:
        ValueError: the answer does not match the form.
    """
    result = whole(ElicitResult, answer)
    if schema is not None and result.action == "accept":
        with suppress(ConfigError):
            form_of(schema).read(result.content or {})
    return result


def whole(kind: type[R], answer: Any) -> R:
    """Return an answer with the members that its type does not know.

    Raises:
        ValueError: it is not of that type.
    """
    return unknown.kept(msgspec.convert(answer, prepared(kind)), answer)


def whole_roots(answer: Any) -> ListRootsResult:
    """Return the roots of an answer, without roots that are not ``file:`` URIs.

    Raises:
        ValueError: the answer is not a list of roots.
    """
    return with_file_roots(unknown.distribute(whole(ListRootsResult, answer)))
