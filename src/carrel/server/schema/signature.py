"""Signature of a user's function: its JSON Schema, and the decoding of arguments from JSON or text.

Arguments are decoded and validated in one pass, by a msgspec struct that is made from the signature. pydantic does
that for the parameters which use it, and is never imported here: code that uses it has imported it. Arguments are
held to the JSON Schema of the signature (the text "5" is no integer); inside a pydantic model that model's rules hold.
"""

from __future__ import annotations

import inspect
import opcode
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, NoReturn, TypeAlias, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec.structs import asdict

from carrel.errors import ConfigError
from carrel.protocol.json_values import REFUSED, InvalidArguments, join_path, read_foreign, rounded
from carrel.server.schema.invalid_arguments import explain, missing_argument, unknown_argument
from carrel.server.schema.parameter import SIMPLE, UNIONS, Documentation, Parameter

__all__ = ["Signature"]

Text: TypeAlias = str | list[str] | dict[str, str]

IMMUTABLE = (str, int, float, bool, bytes)
# Annotations of results that are no JSON objects.
NO_OBJECTS = (inspect.Signature.empty, None, "None", str, "str", int, "int", float, "float", bool, "bool", Any, "Any")
# Opcodes in a coroutine's code where it may hand control back to the event loop.
WAITS = frozenset(
    opcode.opmap[name]
    for name in ("GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "SEND", "YIELD_VALUE", "BEFORE_ASYNC_WITH")
    if name in opcode.opmap
)


class Signature:
    """Parameters and result of a function: decoders, encoders and JSON Schemas.

    ``context_name`` is the parameter annotated with ``context_type``; it is no argument of the caller's. ``open``
    says that there are ``**kwargs``, so that arguments of any name are accepted. ``suspends`` is False only for an
    async function that can never wait and may be driven by ``send(None)`` without a task.

    ``structured`` decides about ``output_schema``: by default there is one only where a JSON object is returned
    (dataclass, TypedDict, Struct, pydantic model, ``dict[str, X]``), since that is what every revision of the protocol
    allows. True wraps anything else as ``{"result": ...}``, False is for none at all. Wire types
    (``ImageContent`` and the like) never have a schema.

    Raises:
        ConfigError: a parameter cannot be an argument of a call; the message names it and says why.
    """

    __slots__ = (
        *("_documentation", "_input", "_model", "_names", "_output", "_pydantic", "_read", "_readers", "_renamed"),
        *("_required", "_reserved", "_returns", "_scope", "_texts", "_unfinished"),
        *("context_name", "function", "is_async", "name", "open", "parameters", "rest", "structured", "suspends"),
    )

    def __init__(
        self, function: Callable[..., Any], context_type: type | None = None, *, structured: bool | None = None
    ) -> None:
        called = called_by(function)
        self.function = function
        self.structured = structured
        self.name = getattr(called, "__qualname__", None) or repr(function)
        self.is_async = inspect.iscoroutinefunction(called)
        self.suspends = self.is_async and may_wait(called)
        self.context_name: str | None = None
        self.open = False
        self._scope = inspect.unwrap(called)
        self.rest: Parameter | None = None
        self._reserved: set[str] = set()
        self._documentation = Documentation(function)
        self.parameters = self._collect(context_type)
        self._pydantic = tuple(parameter for parameter in self.parameters if parameter.by_pydantic)
        self._names = {parameter.alias: parameter for parameter in self.parameters}
        self._required = frozenset(parameter.alias for parameter in self.parameters if parameter.required)
        self._input: dict[str, Any] | None = None
        self._output: tuple[dict[str, Any] | None, Callable[[Any], Any]] | None = None
        self._read: Callable[[Any], Any] | None = None
        self._readers: dict[str, Callable[[Any], Any]] | None = None
        self._texts: frozenset[str] | None = None
        """The names of the parameters if all are required, and are text: nothing is to be converted."""
        self._renamed: tuple[tuple[str, str], ...] = ()
        self._unfinished = False
        self._model: Any = self._make_model() if self._pydantic else None

    def _collect(self, context_type: type | None) -> tuple[Parameter, ...]:
        function = self.function
        bound = function.keywords if isinstance(function, partial) else {}
        found = self._inspect(function)
        self._returns = found.return_annotation
        annotations = {name: item.annotation for name, item in found.parameters.items()}
        self._resolve(annotations)
        parameters = []
        for index, (name, item) in enumerate(found.parameters.items()):
            if name in bound:  # bound by a partial, and no argument of the caller's
                continue
            if context_type is not None and is_context(annotations[name], context_type):
                if self.context_name is not None:
                    self._refuse(name, f"is a second {context_type.__name__}; one is enough")
                self.context_name = name
            elif item.kind is item.VAR_KEYWORD:
                self.open = True
                self.rest = self._accept(name, annotations[name], item.empty)
            elif item.kind is item.VAR_POSITIONAL:
                self._refuse(f"*{name}", "cannot be filled, because arguments come by name; name each of them")
            elif item.kind is item.POSITIONAL_ONLY:
                self._refuse(name, "is positional-only, but arguments come by name; remove the '/' after it")
            elif index == 0 and name in ("self", "cls") and item.annotation is item.empty and is_in_class(function):
                self._refuse(name, "says that this is an unbound method; register the method of an instance")
            else:
                parameters.append(self._accept(name, annotations[name], item.default))
        if self.rest is not None:  # names that are taken by other parameters
            code = getattr(self._scope, "__code__", None)
            positional = code.co_varnames[: code.co_argcount] if code else ()
            self._reserved = {*positional, *bound} - {parameter.name for parameter in parameters}
            self._reserved.update(() if self.context_name is None else (self.context_name,))
        return tuple(parameters)

    def _inspect(self, function: Callable[..., Any]) -> inspect.Signature:
        try:
            return inspect.signature(function)
        except NameError:  # Python 3.14 evaluates annotations on demand; this way an unknown name is kept as it is
            from importlib import import_module

            forward: Any = {"annotation_format": import_module("annotationlib").Format.FORWARDREF}
            return inspect.signature(function, **forward)
        except (TypeError, ValueError) as error:
            hint = "; register the bound method instead" if isinstance(function, classmethod) else ""
            raise ConfigError(f"The parameters of {self.name} cannot be found out: {error}{hint}") from None

    def _resolve(self, annotations: dict[str, Any]) -> None:
        """Evaluate annotations that are strings, or contain strings; in place."""
        unresolved = {name: item for name, item in annotations.items() if type(item) is not type}
        if not unresolved:
            return
        try:
            annotations.update(resolve(unresolved, self._scope))
        except Exception:
            for name, item in unresolved.items():
                try:
                    resolve({name: item}, self._scope)
                except Exception as error:
                    hint = "what it names must be known in the module when it runs, not only to type checkers"
                    self._refuse(name, f"has an annotation that cannot be resolved ({error}); {hint}")
            raise

    def _accept(self, name: str, annotation: Any, default: Any) -> Parameter:
        empty = inspect.Parameter.empty
        parameter = Parameter(
            self._documentation,
            name,
            Any if annotation is empty else annotation,
            NODEFAULT if default is empty else default,
        )
        is_simple = annotation is Any or (type(annotation) is type and annotation in SIMPLE)
        if is_simple and (default is empty or isinstance(default, IMMUTABLE)):
            return parameter
        from carrel.server.schema.type_hints import read_annotation  # simple annotations do without

        try:
            read_annotation(parameter)
        except (TypeError, NameError) as error:
            self._refuse(name, f"cannot be an argument: {error}")
        return parameter

    def _make_model(self) -> Any:
        from carrel.server.schema.type_hints import make_model

        try:  # not at the first call, because pydantic finds many a mistake now
            return make_model(self._pydantic)
        except Exception as error:
            problem = " ".join(str(error).split())
            raise ConfigError(f"pydantic does not take the parameters of {self.name}: {problem}") from None

    def _refuse(self, parameter: str, problem: str) -> NoReturn:
        subject = "The result" if parameter == "return" else f"Parameter {parameter}"
        raise ConfigError(f"{subject} of {self.name} {problem}")

    @property
    def description(self) -> str | None:
        """The docstring without its section on parameters."""
        return self._documentation.text

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema (2020-12) of the arguments. Made on first access.

        https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool

        Raises:
            ConfigError: a type has no schema.
        """
        if self._input is None:
            from carrel.server.schema.schema import input_schema

            self._input = input_schema(self.name, self.parameters, self.rest)
        return self._input

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema (2020-12) of the result: that of an object, or None, as ``structured`` decides.

        https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema

        Raises:
            ConfigError: ``structured`` is True, and the type of the result is unknown or has no schema.
        """
        return self._result()[0]

    @property
    def returns(self) -> Any:
        """The annotation of the result, or ``inspect.Signature.empty``.

        Raises:
            ConfigError: it cannot be resolved.
        """
        annotations = {"return": self._returns}
        self._resolve(annotations)
        return annotations["return"]

    @property
    def returns_no_object(self) -> bool:
        """Whether the annotation alone shows that there is no output schema."""
        return self.structured is False or (self.structured is None and self._returns in NO_OBJECTS)

    def encode(self, value: Any) -> Any:
        """Encode a result as ``output_schema`` describes it: JSON-able, and wrapped where the schema says so.

        Raises:
            TypeError: there is no JSON for the value.
        """
        return self._result()[1](value)

    def _result(self) -> tuple[dict[str, Any] | None, Callable[[Any], Any]]:
        if self._output is None:
            from carrel.server.schema.schema import output_schema

            self._output = output_schema(self.name, self.structured, lambda: self.returns)
        return self._output

    def decode(self, arguments: msgspec.Raw | bytes | None) -> dict[str, Any]:
        """Decode and validate a JSON object of arguments, and return the keyword arguments of the call.

        Raises:
            InvalidArguments: they do not fit the function.
        """
        read = self._read or self._prepare()
        try:
            values = asdict(read(b"{}" if arguments is None else arguments))
        except REFUSED as error:
            values = self._retry(arguments, error)
        return self._complete(values, arguments) if self._unfinished else values

    def _prepare(self) -> Callable[[Any], Any]:
        fields = []
        aliases = {}
        renamed = []
        for index, parameter in enumerate(self.parameters):
            name = parameter.name
            if name.startswith("__"):  # Python mangles such names in classes, and looks for methods under some
                name = f"argument_{index}"
                renamed.append((name, parameter.name))
            aliases[name] = parameter.alias
            fields.append((name, msgspec.Raw if parameter.by_pydantic else parameter.annotation, default_of(parameter)))
        struct = msgspec.defstruct(
            "Arguments", fields, kw_only=True, rename=aliases, gc=False, forbid_unknown_fields=not self.open
        )
        self._renamed = tuple(renamed)
        self._unfinished = bool(renamed or self._pydantic or self.open)
        self._read = msgspec.json.Decoder(struct, dec_hook=read_foreign).decode
        return self._read

    def _retry(self, arguments: Any, error: Exception) -> dict[str, Any]:
        """Decode again with whole numbers as integers: JSON Schema calls 1.0 an integer, and msgspec does not."""
        if "got `float`" in str(error) and self._read is not None:
            try:
                return asdict(self._read(rounded(arguments)))
            except REFUSED as second:
                error = second
        raise self._explain(error) from None

    def _complete(self, values: dict[str, Any], arguments: Any) -> dict[str, Any]:
        for field, name in self._renamed:
            values[name] = values.pop(field)
        if self._pydantic:
            given = {item.alias: values[item.name] for item in self._pydantic if values[item.name] is not UNSET}
            values.update(self._validate(msgspec.json.encode(given)))
        if self.rest is not None:
            members = msgspec.json.decode(arguments or b"{}", type=dict[str, msgspec.Raw])
            rest = {name: raw for name, raw in members.items() if name not in self._names}
            for name in rest.keys() & self._reserved:
                raise unknown_argument(name, self._names)
            for name, raw in rest.items():
                try:
                    values[name] = msgspec.json.decode(raw, type=self.rest.annotation, dec_hook=read_foreign)
                except REFUSED as error:
                    raise self._explain(error, name) from None
        return values

    def _validate(self, given: bytes | dict[str, Any]) -> dict[str, Any]:
        """Validate the parameters of pydantic, from JSON or from text that has been read already."""
        try:
            if isinstance(given, bytes):
                model = self._model.model_validate_json(given)
            else:
                model = self._model.model_validate(given, strict=False)
        except sys.modules["pydantic"].ValidationError as error:
            problems = error.errors(include_url=False, include_input=False, include_context=False)
            if isinstance(given, bytes) and any(problem["type"] == "int_type" for problem in problems):
                again = rounded(given)
                if again != given:
                    return self._validate(again)
            paths = [join_path(problem["loc"]) for problem in problems[:3]]
            if not paths[0]:
                raise InvalidArguments(f"The arguments cannot be read: {problems[0]['msg']}") from None
            told = "; ".join(f"argument `{path}`: {item['msg']}" for path, item in zip(paths, problems, strict=False))
            raise InvalidArguments("A" + told[1:], problems[0]["loc"][0], paths[0]) from None
        return {item.name: getattr(model, f"argument_{index}") for index, item in enumerate(self._pydantic)}

    def convert(self, strings: Mapping[str, Text]) -> dict[str, Any]:
        """Convert the text of template variables or prompt arguments to the types of the parameters.

        Values are text, lists of text or dictionaries of text (exploded variables). Text for an array or an object
        is JSON, except that any other text for an array is its one item. Parameters that are text cost nothing.
        Returns a new dictionary: the keyword arguments of the call.

        Raises:
            InvalidArguments: one is missing, is unknown or does not parse.
        """
        values: dict[str, Any] = dict(strings)
        if values.keys() == self._texts:
            return values
        readers = self._readers
        if readers is None:
            readers = self._readers = self._make_readers()
            if not (readers or self._pydantic) and len(self._required) == len(self.parameters):
                self._texts = self._required
        if not self._required <= values.keys():
            raise missing_argument(min(self._required - values.keys()), self._names)
        if not values.keys() <= self._names.keys():
            self._convert_rest(values)
        for name, read in readers.items():
            if name in values:
                values[name] = self._convert_one(name, values[name], read)
        if self._pydantic:
            given = {item.alias: values.pop(item.alias) for item in self._pydantic if item.alias in values}
            values.update(self._validate(given))
        return values

    def _make_readers(self) -> dict[str, Callable[[Any], Any]]:
        typed = [item for item in self.parameters if item.annotation is not str and item.annotation is not Any]
        if not typed:
            return {}
        from carrel.server.schema.text_values import reader_of  # where all is text, nothing of it is needed

        found = ((item.alias, reader_of(item.annotation, plain=item.by_pydantic)) for item in typed)
        return {name: read for name, read in found if read is not None}

    def _convert_one(self, name: str, value: Any, read: Callable[[Any], Any]) -> Any:
        try:
            return read(value)
        except REFUSED as error:
            raise self._explain(error, name, value) from None

    def _convert_rest(self, values: dict[str, Any]) -> None:
        from carrel.server.schema.text_values import reader_of

        read = None if self.rest is None else reader_of(self.rest.annotation)
        for name in values.keys() - self._names.keys():
            if self.rest is None or name in self._reserved:
                raise unknown_argument(name, self._names)
            if read is not None:
                values[name] = self._convert_one(name, values[name], read)

    def choices(self, parameter: Parameter | str) -> tuple[str, ...]:
        """Return the values of a Literal, Enum or bool parameter as text, in their order; empty for other types."""
        if isinstance(parameter, str):
            parameter = next(item for item in self.parameters if item.name == parameter)
        if parameter.annotation is str or parameter.annotation is Any:
            return ()
        from carrel.server.schema.text_values import text_of
        from carrel.server.schema.type_hints import values_of

        return tuple(text_of(value) for value in values_of(parameter.annotation))

    def _explain(self, error: Exception, name: str = "", given: Any = NODEFAULT) -> InvalidArguments:
        annotations = {known: parameter.annotation for known, parameter in self._names.items()}
        return explain(error, annotations, name, given)


def default_of(parameter: Parameter) -> Any:
    """Return the msgspec field with the parameter's default, the very object and not a copy."""
    default = parameter.default
    if parameter.by_pydantic:
        return msgspec.field(default=NODEFAULT if parameter.required else UNSET)
    if default is NODEFAULT or isinstance(default, IMMUTABLE):
        return msgspec.field(default=default)
    return msgspec.field(default_factory=lambda: default)


def called_by(function: Any) -> Any:
    """Return what runs when ``function`` is called: the code behind partials, methods and callable objects."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, (types.MethodType, staticmethod, classmethod)):
            function = function.__func__
        elif isinstance(function, type) or inspect.isroutine(function) or not callable(function):
            return function
        else:
            function = type(function).__call__


def may_wait(function: Any) -> bool:
    """Return whether an async function can ever hand control to the event loop. True where that is not certain."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_COROUTINE or "GET_AWAITABLE" not in opcode.opmap:
        return True
    return not WAITS.isdisjoint(code.co_code[::2])


def is_context(annotation: Any, context_type: type) -> bool:
    """Return whether a parameter is for the context: ``Context``, ``Context | None`` or ``Annotated[Context, ...]``."""
    if annotation is context_type or get_origin(annotation) is context_type:
        return True
    if get_origin(annotation) is Annotated:
        return is_context(annotation.__origin__, context_type)
    if get_origin(annotation) in UNIONS:
        return any(is_context(item, context_type) for item in get_args(annotation))
    return False


def is_in_class(function: Any) -> bool:
    """Return whether a plain function was defined in the body of a class."""
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return inspect.isfunction(function) and bool(owner) and not owner.endswith("<locals>")


def resolve(annotations: dict[str, Any], scope: Any) -> dict[str, Any]:
    """Evaluate annotations in the namespace where ``scope`` was defined, as far as Python still knows it."""
    module = sys.modules.get(getattr(scope, "__module__", None) or "")
    known = getattr(scope, "__globals__", None) or getattr(module, "__dict__", {})
    local = {}
    names = getattr(getattr(scope, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(scope, "__closure__", None) or (), strict=False):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    holder = types.SimpleNamespace(__annotations__=annotations, __type_params__=getattr(scope, "__type_params__", ()))
    return typing.get_type_hints(holder, known, local, include_extras=True)
