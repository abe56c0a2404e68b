"""Requests of a client session as structs of Carrel, also of methods that the protocol does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from pydantic import BaseModel

from carrel.compat.wire import struct_of
from carrel.protocol.client import ClientProtocol
from carrel.protocol.extension import Extension
from carrel.protocol.methods import RequestType
from carrel.wire.base import Params, Result
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.compat.mcp2.client.extension import ResultClaim

__all__ = ["claiming_result", "custom_request", "struct_for", "struct_like"]


def struct_for(row: RequestType, params: Mapping[str, Any]) -> Any:
    """Return the parameters of a request of the protocol."""
    return struct_of(msgspec.json.encode(params), row.params)


def custom_request(
    connection: ClientProtocol[Any], method: str, params: Mapping[str, Any], result: type[BaseModel]
) -> tuple[RequestType, Params, type[Result]]:
    """Return the row and the parameters of a request that the protocol does not have, and the type of its result."""
    given = _struct("CustomParams", params.keys(), Params)
    found = struct_like(result)
    row: RequestType = RequestType(method, f"custom:{method}", given, found)
    connection.extend(Extension(name="carrel/custom", requests={method: row}, handshake=True))
    names = dict(zip(params.keys(), (f"f{number}" for number in range(len(params))), strict=True))
    return row, given(**{names[name]: value for name, value in params.items()}), found


def struct_like(model: type[BaseModel]) -> type[Result]:
    """Return a struct with the members of the model of a result, of any type."""
    aliases = {field.alias or name for name, field in model.model_fields.items()} - {"_meta", "resultType"}
    found: type[Result] = _struct("CustomResult", aliases, Result)
    return found


def claiming_result(claims: Iterable[ResultClaim[Any]]) -> tuple[type[Result], dict[type[Result], ResultClaim[Any]]]:
    """Return the struct of a tool call's result with the types that extensions add, and the claim of each type."""
    found = {struct_like(claim.model): claim for claim in claims}
    others = {claim.result_type: kind for kind, claim in found.items()}
    return type("ClaimingCallToolResult", (CallToolResult,), {"other_types": others}), found


def _struct(name: str, members: Any, base: Any) -> Any:
    """Return a struct with some members of any type."""
    names = {f"f{number}": member for number, member in enumerate(members)}
    fields = [(field, Any, msgspec.field(default=UNSET, name=member)) for field, member in names.items()]
    return msgspec.defstruct(name, fields, bases=(base,), kw_only=True, omit_defaults=True)
