"""FastAPI application of the tests: pets, with pages, credentials, bodies and errors."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import fastapi
from fastapi import Header, HTTPException, Query, Response, Security
from fastapi.responses import PlainTextResponse, RedirectResponse
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import BaseModel, Field

__all__ = ["SECRET", "pets_api"]

SECRET = "s3cret/token+1"


class Kind(StrEnum):
    """Kinds of pets."""

    CAT = "cat"
    DOG = "dog"


class Pet(BaseModel):
    """A pet, which may have parents."""

    name: str = Field(min_length=1, max_length=20)
    kind: Kind = Kind.CAT
    parents: list[Pet] = []


def pets_api() -> fastapi.FastAPI:
    """Return a new application with three pets. ``app.state.seen`` has the headers and URLs of requests."""
    app = fastapi.FastAPI(title="Pets", version="1.0")
    pets = {number: Pet(name=name) for number, name in enumerate(("Ada", "Bo", "Cy"), 1)}
    app.state.pets = pets
    app.state.seen = []

    @app.middleware("http")
    async def note(request: fastapi.Request, call_next: Any) -> Any:
        app.state.seen.append((request.method, str(request.url), dict(request.headers)))
        return await call_next(request)

    @app.get("/pets", operation_id="list_pets")
    async def list_pets(
        response: Response,
        kind: Annotated[list[Kind] | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 2,
        after: int = 0,
    ) -> list[Pet]:
        found = [(number, pet) for number, pet in pets.items() if number > after and (not kind or pet.kind in kind)]
        if len(found) > limit:
            response.headers["Link"] = f'</pets?limit={limit}&after={found[limit - 1][0]}>; rel="next"'
        return [pet for _, pet in found[:limit]]

    @app.get("/pets/{number}", operation_id="get_pet")
    async def get_pet(number: int) -> Pet:
        if number not in pets:
            raise HTTPException(404, "no such pet")
        return pets[number]

    @app.post("/pets", operation_id="create_pet", status_code=201)
    async def create_pet(pet: Pet) -> dict[str, int]:
        pets[len(pets) + 1] = pet
        return {"number": len(pets)}

    @app.delete("/pets/{number}", operation_id="delete_pet", status_code=204)
    async def delete_pet(number: int) -> Response:
        pets.pop(number, None)
        return Response(status_code=204)

    @app.get("/files/{name}", operation_id="get_file")
    async def get_file(name: str) -> PlainTextResponse:
        return PlainTextResponse(f"file {name}")

    @app.get("/picture", operation_id="get_picture")
    async def get_picture() -> Response:
        return Response(b"\x89PNG\0", media_type="image/png")

    @app.get("/moved", operation_id="moved")
    async def moved(to: str) -> Response:
        return RedirectResponse(to)

    @app.get("/private", operation_id="private")
    async def private(token: Annotated[Any, Security(HTTPBearer(auto_error=False))]) -> dict[str, str]:
        if token is None or token.credentials != SECRET:
            raise HTTPException(401, "who are you")
        return {"you": "are known"}

    @app.get("/keyed", operation_id="keyed")
    async def keyed(key: Annotated[Any, Security(APIKeyHeader(name="X-Key", auto_error=False))]) -> dict[str, Any]:
        raise HTTPException(418, f"your key is {key}")

    @app.get("/headed", operation_id="headed")
    async def headed(x_shape: Annotated[str, Header()]) -> dict[str, str]:
        return {"shape": x_shape}

    @app.get("/private-admin", include_in_schema=False)
    async def hidden() -> str:
        return "not described"

    return app
