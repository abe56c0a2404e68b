"""What holds for every template and every URI: the round trip, the rule of reading, only documented errors."""

import re
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.uri.template import UriTemplate, UriTemplateError, Value
from support.examples import examples

OPERATORS = ("", "+", "#", ".", "/", ";", "?", "&")
PARAMETERS = (";", "?", "&")
NAMES = ("a", "b", "c", "d", "ab", "a.b", "n_1", "Stra%C3%9Fe")
TEXTS = st.text("ab1A-.~é糖🙂 /?#[]@!$&'()*+,;=:%\"\n", max_size=5)
LITERALS = st.sampled_from(
    ["a", "-", "/", ".", "ab", "1", "x:", "?", "#", "&", "=", ",", ";x", "%41", "%C3%A9", "é", "糖", "/a/"]
)


def has_one_reading_of_parameters(template: UriTemplate) -> bool:
    """Is there at most one exploded parameter, and if so, are all parameters in one place?"""
    exploded = sum(variable.explode for variable in template.variables if variable.operator in PARAMETERS)
    places = re.findall(r"(?:\{[;?&][^}]*\})+", template.template)
    return exploded == 0 or (exploded == 1 and len(places) == 1)


@st.composite
def any_templates(draw: st.DrawFn, *, repeated: bool = False) -> UriTemplate:
    names = ["a", "b"] * 8 if repeated else list(draw(st.permutations(NAMES)))
    parts = []
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()) or len(names) < 3:
            parts.append(draw(LITERALS))
            continue
        operator = draw(st.sampled_from(OPERATORS))
        modifiers = [
            draw(st.sampled_from(["", "", "*", ":1", ":3"]))
            for _ in range(draw(st.sampled_from([1] if repeated else [1, 1, 1, 2, 3])))
        ]
        parts.append("{" + operator + ",".join([names.pop() + modifier for modifier in modifiers]) + "}")
    return UriTemplate("".join(parts))


def templates() -> st.SearchStrategy[UriTemplate]:
    return any_templates().filter(has_one_reading_of_parameters)


def without(excluded: str) -> Callable[[str], str]:
    return lambda text: text.translate(dict.fromkeys(map(ord, excluded)))


@st.composite
def expansions(
    draw: st.DrawFn, kind: Callable[[], st.SearchStrategy[UriTemplate]] = templates
) -> tuple[UriTemplate, dict[str, Value]]:
    """A template, and values of every shape but those that the documentation excludes from the round trip."""
    template = draw(kind())
    parameters = any(variable.operator in PARAMETERS for variable in template.variables)
    values: dict[str, Value] = {}
    for place, name in enumerate(template.names):
        variables = [variable for variable in template.variables if variable.name == name]
        texts = TEXTS
        if any(variable.operator in ("+", "#") for variable in variables):
            # Expansion leaves escapes and delimiters in a reserved value alone, so that they can look like parameters.
            texts = texts.map(without("%;?&" if parameters else "%"))
        # The key of an exploded mapping cannot be told from another one or a parameter, nor its dots from separators.
        keys = texts.map(lambda text, place=place: f"key{place}" + text.replace(".", ""))
        scalars = st.none() | texts
        composites = st.lists(texts, max_size=3) | st.dictionaries(keys, texts, max_size=3)
        prefix = any(variable.prefix is not None for variable in variables)
        values[name] = draw(scalars if prefix else scalars | composites)
    return template, values


def repeating_templates() -> st.SearchStrategy[UriTemplate]:
    """Templates in which names occur several times, alone in their expressions, but that are not ambiguous."""
    templates = any_templates(repeated=True).filter(has_one_reading_of_parameters)
    return templates.filter(lambda template: not template.ambiguous)


@st.composite
def texts_in_unambiguous_templates(draw: st.DrawFn) -> tuple[UriTemplate, dict[str, Value]]:
    """Texts for all variables, and lists for the exploded ones; what has a first character may be absent."""
    template = draw(templates().filter(lambda template: not template.ambiguous))
    values: dict[str, Value] = {}
    for variable in template.variables:
        texts = TEXTS.map(without("%")) if variable.operator in ("+", "#") else TEXTS
        if variable.explode:
            kept = draw(
                st.lists(texts.filter(bool) if variable.operator in ("", "+") else texts, min_size=1, max_size=3)
            )
        else:
            kept = draw(texts)[: variable.prefix]
        absent = variable.operator not in ("", "+", "#") and draw(st.booleans())
        values[variable.name] = None if absent else kept
    return template, values


def divide_with_the_graph(template: UriTemplate) -> UriTemplate:
    """The same template, made to match with the graph where it would use its regular expression."""
    other = UriTemplate(template.template)
    other.prepare().fullmatch = None
    return other


def read_by_backtracking(template: UriTemplate, uri: str) -> dict[str, str] | None:
    """The rule of the documentation as a regular expression: lazy values, greedy presence, written readings first."""
    for written in (True, False):
        pattern = ""
        for part in re.split(r"(\{[^}]*\})", template.template):
            found = re.fullmatch(r"\{([+#./]?)([a-z])(?::(\d))?\}", part)
            if found is None:
                pattern += re.escape(part)
                continue
            operator, name, prefix = found.groups()
            plain = "[^/?#:]" if written else "[^/?#]"
            length = f"{{0,{prefix}}}?" if prefix else "*?"
            run = f"(?P<{name}>{'.' if operator in ('+', '#') else plain}{length})"
            pattern += run if operator in ("", "+") else f"(?:{re.escape(operator)}{run})?"
        match = re.fullmatch(pattern, uri)
        if match:
            return {name: text for name, text in match.groupdict().items() if text is not None}
    return None


@settings(max_examples=examples(50), deadline=None)
@given(expansions())
def test_what_expansion_writes_is_read_as_values_that_expand_to_the_same_uri(
    expansion: tuple[UriTemplate, dict[str, Value]],
) -> None:
    template, values = expansion
    uri = template.expand(values)
    found = template.match(uri)
    assert found is not None
    assert template.expand(found) == uri
    assert template.required <= found.keys() <= set(template.names)


@settings(max_examples=examples(37), deadline=None)
@given(texts_in_unambiguous_templates())
def test_texts_come_back_as_they_were_when_the_template_is_not_ambiguous(
    expansion: tuple[UriTemplate, dict[str, Value]],
) -> None:
    template, values = expansion
    assert template.match(template.expand(values)) == {
        name: value for name, value in values.items() if value is not None
    }


@settings(max_examples=examples(37), deadline=None)
@given(
    expansions(),
    st.sampled_from(["", "a", "/", "%2F", "%4", "?", "#", "&x=1", "é", "'", "\x01", " ", "\\"]),
    st.integers(0, 20),
)
def test_the_regular_expression_and_the_graph_read_alike(
    expansion: tuple[UriTemplate, dict[str, Value]], inserted: str, place: int
) -> None:
    template, values = expansion
    uri = template.expand(values)
    changed = uri[:place] + inserted + uri[place:]
    assert divide_with_the_graph(template).match(changed) == template.match(changed)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["{a}", "{+b}", "{#c}", "{.d}", "{/e}", "{f:2}", "{+g:1}", "{.h:1}", "a", "-", "/", ".", "x:", "#"]
        ),
        max_size=5,
        unique=True,
    ).map("".join),
    st.text("ab-./#:", max_size=8),
)
def test_of_several_readings_the_documented_one_is_taken(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) == read_by_backtracking(UriTemplate(template), uri)


@settings(max_examples=examples(37), deadline=None)
@given(st.text(st.sampled_from("{}+#./;?&*:,%aé1~ 糖\ud800\x00")) | st.text(), st.text(max_size=30))
def test_any_text_is_a_template_or_refused_with_the_documented_error(text: str, uri: str) -> None:
    try:
        template = UriTemplate(text)
    except UriTemplateError:
        return
    template.match(uri)
    template.match(template.expand({}))


@settings(max_examples=examples(37), deadline=None)
@given(any_templates(), st.text(st.sampled_from("ab/%?#&=;,.41C39é糖\ud800\udc41\udcff\x01\x02\x03\\ ")) | st.text())
def test_any_text_can_be_matched(template: UriTemplate, uri: str) -> None:
    found = template.match(uri)
    assert found is None or template.required <= found.keys()
    assert divide_with_the_graph(template).match(uri) == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=examples(37), deadline=None)
@given(templates(), st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_values_are_expanded_or_refused_with_the_documented_errors(
    template: UriTemplate, values: dict[str, Value]
) -> None:
    try:
        uri = template.expand(values)
    except (UriTemplateError, TypeError):
        return
    assert uri.isascii()


@settings(max_examples=examples(25), deadline=None)
@given(expansions(repeating_templates))
def test_a_variable_may_be_repeated_where_the_template_is_not_ambiguous(
    expansion: tuple[UriTemplate, dict[str, Value]],
) -> None:
    template, values = expansion
    uri = template.expand(values)
    found = template.match(uri)
    assert found is not None
    assert template.expand(found) == uri
    assert template.required <= found.keys()


@settings(max_examples=examples(25), deadline=None)
@given(st.text(max_size=5), st.text(max_size=5), st.sampled_from(["", ".", "/", ";", "?", "&"]))
def test_a_variable_in_several_places_has_one_value(some: str, other: str, operator: str) -> None:
    template = UriTemplate(f"x:{{v}}/-/{{{operator}v}}")
    assert template.match(template.expand({"v": some})) == {"v": some}
    two = UriTemplate(f"x:{{w}}/-/{{{operator}v}}")
    found = template.match(two.expand({"w": some, "v": other}))
    assert (found is None) == (some != other)
