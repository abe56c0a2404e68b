"""Validation of arguments by pydantic, for the parameters whose types need it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from carrel.protocol.json_values import DECODING_ERRORS, InvalidArguments, join_path, rounded
from carrel.server.schema.lenient import json_in_text
from carrel.server.schema.parameter import Parameter
from carrel.server.schema.type_hints import make_model

__all__ = ["ParameterModel"]


class ParameterModel:
    """Pydantic model of some parameters of a function.

    Arguments that do not fit are validated once more by pydantic's lax rules, unless it is ``strict``. Inside a
    pydantic model that model's own rules hold.
    """

    def __init__(self, parameters: Sequence[Parameter], *, strict: bool) -> None:
        self._parameters = parameters
        self._strict = strict
        self._model = make_model(parameters)
        self._invalid: type[Exception] = sys.modules["pydantic"].ValidationError

    def validate(self, given: bytes | dict[str, Any]) -> dict[str, Any]:
        """Return keyword arguments by name, from JSON or from text that has been read already.

        Raises:
            InvalidArguments: they do not fit.
        """
        try:
            if isinstance(given, bytes):
                model = self._model.model_validate_json(given)
            else:
                model = self._model.model_validate(given, strict=False)
        except self._invalid as error:
            problems = problems_of(error)
            if not isinstance(given, bytes):
                raise invalid_arguments(problems) from None
            model = self._validate_again(given, problems)
        return {item.name: getattr(model, f"argument_{index}") for index, item in enumerate(self._parameters)}

    def _validate_again(self, given: bytes, problems: Sequence[dict[str, Any]]) -> Any:
        """Validate JSON that was refused: leniently, or with whole numbers as integers."""
        again = given
        if any(problem["type"] == "int_type" for problem in problems):
            again = rounded(given)
        if not self._strict:
            try:
                members = msgspec.json.decode(again)
            except DECODING_ERRORS:
                raise invalid_arguments(problems) from None
            optional = {item.alias for item in self._parameters if not item.required}
            for name in {problem["loc"][0] for problem in problems if problem["loc"]} & members.keys():
                value = members[name]
                if value is None and name in optional:
                    del members[name]
                elif isinstance(value, str):
                    text = json_in_text(value)
                    members[name] = value if text is None else msgspec.Raw(text)
            again = msgspec.json.encode(members)
        elif again == given:
            raise invalid_arguments(problems)
        try:
            return self._model.model_validate_json(again, strict=self._strict)
        except self._invalid as error:
            raise invalid_arguments(problems_of(error)) from None


def problems_of(error: Any) -> list[dict[str, Any]]:
    """Return the list of errors in a pydantic ``ValidationError``."""
    found: list[dict[str, Any]] = error.errors(include_url=False, include_input=False, include_context=False)
    return found


def invalid_arguments(problems: Sequence[dict[str, Any]]) -> InvalidArguments:
    """Return the error for what pydantic reports: the first three problems, each with the path of the argument."""
    paths = [join_path(problem["loc"]) for problem in problems[:3]]
    if not paths[0]:
        return InvalidArguments(f"The arguments cannot be read: {problems[0]['msg']}")
    problem = "; ".join(f"argument `{path}`: {item['msg']}" for path, item in zip(paths, problems, strict=False))
    return InvalidArguments("A" + problem[1:], problems[0]["loc"][0], paths[0])
