"""Signature of a user's function: its JSON Schema, and the decoding of arguments from JSON or text.

Arguments are decoded and validated in one pass, by a msgspec struct that is made from the signature. pydantic does that
for the parameters which use it, and is never imported here: code that uses it has imported it. Arguments that violate
the JSON Schema of the signature are read once more, leniently: the text "5" is an integer too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec.structs import asdict

from carrel.errors import ConfigError
from carrel.protocol.json_values import DECODING_ERRORS, InvalidArguments, read_foreign, rounded
from carrel.server.schema.callables import called_by, is_context, is_in_class, may_wait, resolve
from carrel.server.schema.invalid_arguments import explain, missing_argument, unknown_argument
from carrel.server.schema.parameter import SIMPLE, Dependency, Documentation, Parameter, dependency_of

if TYPE_CHECKING:
    from carrel.server.schema.schema import Output

__all__ = ["Signature"]

Text: TypeAlias = str | list[str] | dict[str, str]

#: Names of parameters that are meant for the context of a call.
CONTEXT_NAMES = ("ctx", "context")
IMMUTABLE = (str, int, float, bool, bytes)
# Annotations of results that say nothing about structured content.
UNKNOWN = (inspect.Signature.empty, None, "None", Any, "Any", object)


class Signature:
    """Parameters and result of a function: decoders, encoders and JSON Schemas.

    Arguments that violate the schema are read leniently (see ``lenient``) unless ``strict`` is set. Unknown arguments
    are refused, or ignored with ``ignore_unknown``.

    ``context_name`` is the parameter annotated with ``context_type``; callers cannot pass it, nor the ``dependencies``.
    ``open``: the function has ``**kwargs``, so arguments of any name are accepted. ``positional``: all arguments are
    required, and may also be passed in the order of ``parameters``. ``suspends`` is False only for an async function
    that never waits and may be driven by ``send(None)`` without a task. ``yields``: the function is a generator
    function.

    ``structured`` controls ``output_schema``. By default, every result annotation except ``Any`` gives a schema; a
    result that is not a JSON object is wrapped as ``{"result": …}``. False disables the schema, True requires it. Wire
    types (``ImageContent`` and the like) never have a schema.

    Raises:
        ConfigError: a parameter cannot be an argument of a call; the message names it and says why.
    """

    __slots__ = (
        *("_documentation", "_input", "_model", "_names", "_output", "_pydantic", "_read", "_readers", "_renamed"),
        *("_required", "_reserved", "_returns", "_scope", "_struct", "_texts", "_unfinished", "context_name"),
        *("dependencies", "function", "ignores_unknown", "is_async", "name", "open", "parameters", "positional"),
        *("strict", "structured", "suspends", "variadic", "yields"),
    )

    def __init__(
        self,
        function: Callable[..., Any],
        context_type: type | None = None,
        *,
        structured: bool | None = None,
        strict: bool = False,
        ignore_unknown: bool = False,
    ) -> None:
        called = called_by(function)
        self.function = function
        self.structured = structured
        self.strict = strict
        self.ignores_unknown = ignore_unknown
        self.name = getattr(called, "__qualname__", None) or repr(function)
        self.is_async = inspect.iscoroutinefunction(called)
        self.yields = inspect.isgeneratorfunction(called)
        self.suspends = self.is_async and may_wait(called)
        self.context_name: str | None = None
        self.dependencies: dict[str, Dependency] = {}
        self.open = False
        self.positional = False
        self._scope = inspect.unwrap(called)
        self.variadic: Parameter | None = None
        self._reserved: set[str] = set()
        self._documentation = Documentation(function)
        self.parameters = self._collect(context_type)
        self._pydantic = tuple(parameter for parameter in self.parameters if parameter.by_pydantic)
        self._names = {parameter.alias: parameter for parameter in self.parameters}
        self._required = frozenset(parameter.alias for parameter in self.parameters if parameter.required)
        self._input: dict[str, Any] | None = None
        self._output: Output | None = None
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
            marker = dependency_of(annotations[name], item.default)
            if marker is not None:
                self.dependencies[name] = marker
            elif context_type is not None and is_context(annotations[name], context_type):
                if self.context_name is not None:
                    self._reject(name, f"is a second {context_type.__name__}; one is enough")
                self.context_name = name
            elif context_type is not None and name in CONTEXT_NAMES and item.annotation is item.empty:
                hint = f"write {name}: {context_type.__name__} (from carrel import {context_type.__name__})"
                self._reject(name, f"is not annotated, and so would be an argument of the caller's; {hint}")
            elif item.kind is item.VAR_KEYWORD:
                self.open = True
                self.variadic = self._accept(name, annotations[name], item.empty)
            elif item.kind is item.VAR_POSITIONAL:
                self._reject(f"*{name}", "cannot be filled, because arguments come by name; name each of them")
            elif item.kind is item.POSITIONAL_ONLY:
                self._reject(name, "is positional-only, but arguments come by name; remove the '/' after it")
            elif index == 0 and name in ("self", "cls") and item.annotation is item.empty and is_in_class(function):
                self._reject(name, "says that this is an unbound method; register the method of an instance")
            else:
                parameters.append(self._accept(name, annotations[name], item.default))
        self.positional = not (self.context_name or self.dependencies) and all(
            item.kind is item.POSITIONAL_OR_KEYWORD and item.default is item.empty for item in found.parameters.values()
        )
        if self.variadic is not None:  # names that are taken by other parameters
            code = getattr(self._scope, "__code__", None)
            positional = code.co_varnames[: code.co_argcount] if code else ()
            self._reserved = {*positional, *bound} - {parameter.name for parameter in parameters}
            self._reserved.update(self.dependencies, () if self.context_name is None else (self.context_name,))
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
            raise ConfigError(f"The parameters of {self.name} cannot be inspected: {error}{hint}") from None

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
                    hint = "its names must exist in the module at runtime, not only for type checkers"
                    self._reject(name, f"has an annotation that cannot be resolved ({error}); {hint}")
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
            self._reject(name, f"cannot be an argument: {error}")
        return parameter

    def _make_model(self) -> Any:
        from carrel.server.schema.models import ParameterModel

        try:  # not at the first call, because pydantic finds many a mistake now
            return ParameterModel(self._pydantic, strict=self.strict)
        except Exception as error:
            problem = " ".join(str(error).split())
            raise ConfigError(f"pydantic rejects the parameters of {self.name}: {problem}") from None

    def _reject(self, parameter: str, problem: str) -> NoReturn:
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

            self._input = input_schema(self.name, self.parameters, self.variadic)
        return self._input

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema (2020-12) of the result (an object), or None, as ``structured`` decides.

        https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema

        Raises:
            ConfigError: ``structured`` is True, and the type of the result is unknown or has no schema.
        """
        return self._result().schema

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
    def returns_nothing_known(self) -> bool:
        """Whether the annotation alone shows that there is no output schema."""
        return self.structured is False or (self.structured is None and self._returns in UNKNOWN)

    @property
    def returns_none(self) -> bool:
        """Whether the function is annotated to return None."""
        return self._returns is None or self._returns == "None"

    @property
    def wraps(self) -> bool:
        """Whether ``output_schema`` has the result as its member ``result``."""
        return self._result().wraps

    def to_plain(self, value: Any) -> Any:
        """Convert a result to JSON types.

        Raises:
            TypeError: the value cannot be encoded as JSON.
        """
        return self._result().to_plain(value)

    def _result(self) -> Output:
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
        except DECODING_ERRORS as error:
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
        refuse = not (self.open or self.ignores_unknown)
        struct = self._struct = msgspec.defstruct(
            "Arguments", fields, kw_only=True, rename=aliases, gc=False, forbid_unknown_fields=refuse
        )
        self._renamed = tuple(renamed)
        self._unfinished = bool(renamed or self._pydantic or self.open)
        self._read = msgspec.json.Decoder(struct, dec_hook=read_foreign).decode
        return self._read

    def _retry(self, arguments: Any, error: Exception) -> dict[str, Any]:
        """Decode again: leniently, or with 1.0 as an integer, as JSON Schema has it and msgspec has not."""
        assert self._read is not None
        fractions = "got `float`" in str(error)
        try:
            given = rounded(arguments) if fractions else b"{}" if arguments is None else arguments
            if not self.strict:
                from carrel.server.schema.lenient import read_leniently

                return read_leniently(self._struct, given, self.parameters)
            if fractions:
                return asdict(self._read(given))
        except DECODING_ERRORS as second:
            error = second
        raise self._explain(error) from None

    def _complete(self, values: dict[str, Any], arguments: Any) -> dict[str, Any]:
        for field, name in self._renamed:
            values[name] = values.pop(field)
        if self._pydantic:
            given = {item.alias: values[item.name] for item in self._pydantic if values[item.name] is not UNSET}
            values.update(self._model.validate(msgspec.json.encode(given)))
        if self.variadic is not None:
            members = msgspec.json.decode(arguments or b"{}", type=dict[str, msgspec.Raw])
            remaining = {name: raw for name, raw in members.items() if name not in self._names}
            for name in remaining.keys() & self._reserved:
                if not self.ignores_unknown:
                    raise unknown_argument(name, self._names)
                del remaining[name]
            kind = self.variadic.annotation
            for name, raw in remaining.items():
                try:
                    values[name] = msgspec.json.decode(raw, type=kind, strict=self.strict, dec_hook=read_foreign)
                except DECODING_ERRORS as error:
                    raise self._explain(error, name) from None
        return values

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
                if values[name] == "" and name not in self._required and not self.strict:
                    self._convert_empty(name, values, read)
                else:
                    values[name] = self._convert_one(name, values[name], read)
        if self._pydantic:
            given = {item.alias: values.pop(item.alias) for item in self._pydantic if item.alias in values}
            values.update(self._model.validate(given))
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
        except DECODING_ERRORS as error:
            raise self._explain(error, name, value) from None

    @staticmethod
    def _convert_empty(name: str, values: dict[str, Any], read: Callable[[Any], Any]) -> None:
        """Convert empty text for an optional parameter, or leave it out where the type has no empty text."""
        try:
            values[name] = read("")
        except DECODING_ERRORS:
            del values[name]

    def _convert_rest(self, values: dict[str, Any]) -> None:
        from carrel.server.schema.text_values import reader_of

        read = None if self.variadic is None else reader_of(self.variadic.annotation)
        for name in values.keys() - self._names.keys():
            if self.ignores_unknown and (self.variadic is None or name in self._reserved):
                del values[name]
            elif self.variadic is None or name in self._reserved:
                raise unknown_argument(name, self._names)
            elif read is not None:
                values[name] = self._convert_one(name, values[name], read)

    @staticmethod
    def choices(parameter: Parameter) -> tuple[str, ...]:
        """Return the values of a Literal, Enum or bool parameter as text, in their order; empty for other types."""
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
