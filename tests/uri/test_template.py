"""URI templates: expansion by the table of RFC 6570, matching by the tables of the documentation, faults and limits."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from carrel.uri import expression as uri_expression
from carrel.uri.template import UriTemplate, UriTemplateError, Value, Variable
from support.processor_time import is_linear, loops

RFC = json.loads(Path(__file__).with_name("rfc6570.json").read_text(encoding="utf-8"))
DOCUMENT = Path(__file__).parents[2] / "docs" / "uri-templates.md"
ROW = re.compile(r"\| `([^`]*)` \| `([^`]*)` \| (?:`(\{.*\})`|(no match)) \|")


def documented_rows() -> list[Any]:
    rows = [ROW.fullmatch(line) for line in DOCUMENT.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(row[1], row[2], json.loads(row[3]) if row[3] else None, id=f"{row[1]} {row[2]}")
        for row in rows
        if row
    ]


@pytest.mark.parametrize("group", RFC, ids=lambda group: group["section"])
def test_expansion_is_what_the_rfc_says(group: dict[str, Any]) -> None:
    for template, uri in group["examples"]:
        assert UriTemplate(template).expand(group["values"]) == uri, template


@pytest.mark.parametrize("group", RFC, ids=lambda group: group["section"])
def test_the_examples_of_the_rfc_are_read_back(group: dict[str, Any]) -> None:
    for template, uri in group["examples"]:
        found = UriTemplate(template).match(uri)
        assert found is not None, template
        if not (re.search(r"\{[+#]", template) and re.search("%(?!25(?![0-9A-F]{2}))", uri)):
            # An escape in a reserved value is passed on by expansion, and read decoded.
            assert UriTemplate(template).expand(found) == uri, template


@pytest.mark.parametrize(("template", "uri", "values"), documented_rows())
def test_the_tables_of_the_documentation_are_true(template: str, uri: str, values: dict[str, Value] | None) -> None:
    assert UriTemplate(template).match(uri) == values


def test_every_table_row_of_the_documentation_is_run() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").partition("## Limits")[0].splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == len(documented_rows()) > 70


def test_the_documented_limits_are_the_ones_in_force() -> None:
    limits = re.findall(r"\| ([\d,]+) \|", DOCUMENT.read_text(encoding="utf-8").partition("## Limits")[2])
    assert [int(limit.replace(",", "")) for limit in limits] == [
        uri_expression.MAX_TEMPLATE,
        uri_expression.MAX_VARIABLES,
        uri_expression.MAX_URI,
        uri_expression.MAX_ITEMS,
        uri_expression.MAX_PAIRS,
    ]


@pytest.mark.parametrize(
    ("template", "position"),
    [
        ("{/id*", 1),
        ("/id*}", 5),
        ("x{", 2),
        ("{}", 2),
        ("{?}", 3),
        ("{a,}", 4),
        ("{,a}", 2),
        ("{/?id}", 3),
        ("{??a}", 3),
        ("{a{b}}", 3),
        ("{!a}", 2),
        ("{=a}", 2),
        ("{@a}", 2),
        ("{|a*}", 2),
        ("{$a}", 2),
        ("{~a}", 2),
        ("{with space}", 6),
        ("{ a}", 2),
        ("{a }", 3),
        ("{?a, b}", 5),
        ("{*a?}", 2),
        ("{a**}", 3),
        ("{?empty=default,a}", 8),
        ("/h{#a+}", 6),
        ("{a-b}", 3),
        ("{.a.}", 4),
        ("{a..b}", 3),
        ("{/.a}", 3),
        ("{%2x}", 2),
        ("{é}", 2),
        ("{a:}", 4),
        ("{a:0}", 4),
        ("{a:01}", 4),
        ("{a:10000}", 4),
        ("{a:x}", 4),
        ("{a:2*}", 4),
        ("{a:-1}", 4),
        ("{a:²}", 4),
        ("a b", 2),
        ('"', 1),
        ("<a>", 1),
        ("a\\b", 2),
        ("a`", 2),
        ("a^b", 2),
        ("|", 1),
        ("x\x00", 2),
        ("x\x7f", 2),
        ("{a}100%", 7),
        ("%2", 1),
        ("%zz", 1),
    ],
)
def test_a_malformed_template_is_refused_with_the_position_of_the_fault(template: str, position: int) -> None:
    with pytest.raises(UriTemplateError, match=rf"at character {position} of the URI template"):
        UriTemplate(template)


def test_literal_text_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UriTemplateError, match=r"character 2 is a lone surrogate.* in the text from character 4"):
        UriTemplate("{b}x\ud800{a}")


def test_an_expression_inside_of_an_escaped_character_is_refused() -> None:
    with pytest.raises(UriTemplateError, match="divides the escapes of one character"):
        UriTemplate("%C3{a}%A9")


def test_the_error_shows_only_the_beginning_of_a_long_template() -> None:
    with pytest.raises(UriTemplateError) as raised:
        UriTemplate("a" * 5000 + " ")
    assert len(str(raised.value)) < 200


def test_a_template_over_the_limits_is_refused() -> None:
    assert UriTemplate("a" * 8192).literal_length == 8192
    with pytest.raises(UriTemplateError, match="at most 8192 characters, this one has 8193"):
        UriTemplate("a" * 8193)
    names = ",".join(f"v{number}" for number in range(256))
    assert len(UriTemplate(f"x:{{?{names}}}").variables) == 256
    with pytest.raises(UriTemplateError, match="at most 256 variables, at character 3"):
        UriTemplate(f"x:{{?{names},more}}")


def test_a_template_describes_its_variables() -> None:
    template = UriTemplate("file:///a/{name}{/b*}{?c:3,d}")
    assert template.variables == (
        Variable("name"),
        Variable("b", explode=True, operator="/"),
        Variable("c", prefix=3, operator="?"),
        Variable("d", operator="?"),
    )
    assert template.names == ("name", "b", "c", "d")
    assert template.required == {"name"}
    assert template.prefix == "file:///a/"
    assert template.literal_length == 10
    assert repr(template) == "UriTemplate('file:///a/{name}{/b*}{?c:3,d}')"


def test_literal_text_is_counted_and_kept_percent_encoded() -> None:
    assert UriTemplate("x:病/{a}").prefix == "x:%E7%97%85/"
    assert UriTemplate("x:病/{a}").literal_length == UriTemplate("x:%E7%97%85/{a}").literal_length == 12
    assert UriTemplate("{a}").prefix == ""


@pytest.mark.parametrize(
    ("template", "required"),
    [
        ("x:{a}{+b}", {"a", "b"}),
        ("x:{a,b}", {"a"}),
        ("x:{a:2}", {"a"}),
        ("x:{a:2,b}", set()),
        ("x:{a}{?b}{#c}", {"a"}),
        ("x:{a}{/a*}", set()),
        ("x:", set()),
    ],
)
def test_required_names_are_the_ones_that_every_match_has(template: str, required: set[str]) -> None:
    assert UriTemplate(template).required == required


@pytest.mark.parametrize(
    ("template", "ambiguous"),
    [
        ("book://{author}/{title}", False),
        ("x:{a}:{b},{c}", False),
        ("x:{a}{/b*}{?c,d}{#e}", False),
        ("x:{+a}", False),
        ("x:{name}.md", False),
        ("x:{a}{b}", True),
        ("x:{a}.{b}", True),
        ("x:{+a}/{b}", True),
        ("x:{+a}{?b}", True),
        ("x{.a*}", True),
        ("x{/a*}{/b}", True),
    ],
)
def test_ambiguous_says_whether_a_text_can_be_divided_in_several_ways(template: str, ambiguous: bool) -> None:
    assert UriTemplate(template).ambiguous is ambiguous


def test_templates_are_equal_when_their_text_is() -> None:
    assert UriTemplate("x:{a}") == UriTemplate("x:{a}")
    assert len({UriTemplate("x:{a}"), UriTemplate("x:{a}"), UriTemplate("x:{b}")}) == 2
    assert UriTemplate("x:{a}") != "x:{a}"


@pytest.mark.parametrize("value", [["a"], {"a": "b"}, []])
def test_a_list_or_mapping_has_no_prefix(value: Value) -> None:
    with pytest.raises(UriTemplateError, match="only text has a prefix"):
        UriTemplate("{v:3}").expand({"v": value})


def test_text_with_a_lone_surrogate_cannot_be_expanded() -> None:
    for template in ("{v}", "{+v}", "{v*}", "{?v*}"):
        with pytest.raises(UriTemplateError, match="lone surrogate"):
            UriTemplate(template).expand({"v": ["\ud800"]})


@pytest.mark.parametrize("value", [b"bytes", object(), {1, 2}, [None], [["nested"]], {"key": None}])
def test_a_value_of_another_type_cannot_be_expanded(value: Any) -> None:
    with pytest.raises(TypeError, match=r"neither text nor a number|is not text, a number, a list or a mapping"):
        UriTemplate("{v}").expand({"v": value})


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        # A value with bytes that are not UTF-8 in the text around it.
        ("file:///caf%E9/{v}", "file:///caf%e9/a", {"v": "a"}),
        ("{a}%E9{b}", "1%E92", {"a": "1", "b": "2"}),
        ("{a}%E9{b}", "1%E9%E9", None),
        ("x:{a}%2F{b}", "x:1%2f2%2F3", {"a": "1", "b": "2/3"}),
        ("x:{a}{b:1}%41", "x:%41%41", {"a": "", "b": "A"}),
        ("x:{a}-", "x:%2D", None),
        ("x:{v}1", "x:%411", {"v": "A"}),
        ("x:{v}1", "x:%41", None),
        ("x:{v}%41", "x:b%41", {"v": "b"}),
        ("x:{v}", "x:\ud800", None),
        ("x:{a}.{b}", "x:\udc41.1", None),
        ("x:{a}.{b}", "x:%zz.1", None),
        ("x:{a}.{b}", "x:a\\%41.1", None),
        ("x:{a}.{b}", "y:1.2", None),
        ("x:{a}.{b}", "x:1%C3.2", None),
        ("x:{a}{b:300}", "x:" + "1" * 500, {"a": "1" * 200, "b": "1" * 300}),
        # Queries that do not end the URI come in order.
        ("x{?a,b}/y", "x?a=1&b=2/y", {"a": "1", "b": "2"}),
        ("x{?a,b}/y", "x?b=2&a=1/y", None),
        ("x{?a*}/y", "x?b=2&c=1/y", {"a": {"b": "2", "c": "1"}}),
        ("x{&a}y{&b}", "x&a=1y&b=2", {"a": "1", "b": "2"}),
        # Several exploded variables in one query.
        ("x{?a*,b*}", "x?a=1&a=2&k=3", {"a": ["1", "2"], "b": {"k": "3"}}),
        ("x{?a*,b*}", "x?k=1&k=2", {"a": {"k": "1"}, "b": {"k": "2"}}),
        ("x{?a*,c,b*}", "x?k=1&c=2&l=3", {"a": {"k": "1"}, "c": "2", "b": {"l": "3"}}),
        ("x{?a*,c}", "x?c=2&k=1", {"a": {"k": "1"}, "c": "2"}),
        ("x{?a*}", "x?a=1&k=2", {"a": {"a": "1", "k": "2"}}),
        ("x{?a*,b*}", "x?k=1&k=2&k=3", None),
        ("x{?a}{&b}", "x&b=1", {"b": "1"}),
        ("x{?a}{&b}", "x&a=1", None),
        ("x{?a}{&b}", "x&b=2&a=1", None),
        ("x{&a}", "x?a=1", None),
        ("x{?a*}", "x?b", None),
        ("{+p}{&q}", "a&b&q=1", {"p": "a&b", "q": "1"}),
        ("{+p}{?q}{&r}", "a?q=1&r=2", {"p": "a", "q": "1", "r": "2"}),
        ("{+p}{?q}{&r}", "a&r=2", {"p": "a", "r": "2"}),
        ("{+p}{?q}", "a?q=1&q=2", {"p": "a?q=1&q=2"}),
        ("x{?a}{?b}", "x?a=1?b=2", {"a": "1", "b": "2"}),
        ("x{?a,a}", "x?a=1&a=1", {"a": "1"}),
        ("{+p}{?q,r}", "a?q=1?r=2&q=3", {"p": "a?q=1", "r": "2", "q": "3"}),
        ("x{?a,b}{#f}", "x?b=2&a=1#c", {"a": "1", "b": "2", "f": "c"}),
        ("x{?a}{&b}#{f}", "x?b=2&a=1#c", {"a": "1", "b": "2", "f": "c"}),
        ("x{?a,b}{#f}y", "x?a=1&b=2#cy", {"a": "1", "b": "2", "f": "c"}),
        ("x{?a,b}{#f}y", "x?b=2&a=1#cy", None),
        ("{+p}{?q}{#f}", "a#b?q=1#c", {"p": "a", "f": "b?q=1#c"}),
        ("{+p}/y{?q}{#f}", "a#b/y?q=1#c", {"p": "a#b", "q": "1", "f": "c"}),
        ("{+p}{?m*}", "a?b=1&c=2", {"p": "a", "m": {"b": "1", "c": "2"}}),
        # Mappings whose values contain the separator.
        ("x{.m*}", "x.a=1.5.b=2", {"m": {"a": "1.5", "b": "2"}}),
        ("x{.m*}", "x.a=1=2", {"m": ["a=1=2"]}),
        ("x:{+m*}", "x:a=1,b", {"m": ["a=1", "b"]}),
        ("x:{m*}", "x:a=1,a=2", {"m": ["a=1", "a=2"]}),
        ("x{;m*}", "x;a=1;a=2", None),
        # The same variable written in different ways.
        ("x:{v}{/v*}", "x:a,b/a/b", {"v": ["a", "b"]}),
        ("x:{v}{/v*}", "x:k,v/k=v", {"v": {"k": "v"}}),
        ("x:{v}{/v*}", "x:a/a", {"v": ["a"]}),
        ("x:{v}{/v*}", "x:", {}),
        ("x:{v}{/v*}", "x:a", None),
        ("x:{v:2}/{v:4}", "x:ab/abcd", {"v": "abcd"}),
        ("x:{v:2}{/v*}", "x:ab/ab/c", None),
        ("", "", {}),
        ("x:y", "x:y", {}),
        ("x:y", "x:z", None),
        ("{a}", "", {"a": ""}),
    ],
)
def test_corners_of_matching(template: str, uri: str, values: dict[str, Value] | None) -> None:
    assert UriTemplate(template).match(uri) == values


def test_a_uri_over_the_limits_does_not_match() -> None:
    assert UriTemplate("{+v}").match("a" * 65_536) is not None
    for template in ("{+v}", "{a}{b}", "x:{a}-{b}"):
        assert UriTemplate(template).match("x:-" + "a" * 65_536) is None
    for template, separator in [
        ("{v*}", ","),
        ("{v}", ","),
        ("{/v*}", "/"),
        ("x{/v*}{w}", "/"),
        ("{;v*}", ";v=1"),
        ("{?v*}", "&v=1"),
    ]:
        opener = {"{?v*}": "?v=1", "x{/v*}{w}": "x"}.get(template, "")
        assert UriTemplate(template).match(opener + separator * 1_022) is not None
        assert UriTemplate(template).match(opener + separator * 1_025) is None
    assert UriTemplate("{a*}{b*}").match(",".join(["k=1"] * 128)) is not None


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("{;a}{+b}", ";a=a", {"a": "a", "b": ""}),
        ("{;a}{+b}", ";aa", {"a": "", "b": "a"}),
        ("{;a,b}{+c}", ";a=a;b=b", {"a": "a", "b": "b", "c": ""}),
        ("{+b}{;a}", ";a=a", {"b": "", "a": "a"}),
        ("{+a}{;a}", "a;a=a", {"a": "a"}),
    ],
)
def test_the_value_of_a_parameter_goes_to_it_rather_than_to_its_neighbour(
    template: str, uri: str, values: dict[str, str]
) -> None:
    assert UriTemplate(template).match(uri) == values


ADVERSARIES = [
    ("{a}{b}{c}{d}", ["a", "%41", "%E7%B3%96", "a-"]),
    ("{+a}-{+b}-{+c}", ["-", "-a", "%2D-"]),
    ("{a}-{b}-{c}-{d}-{e}/", ["-", "a-"]),
    ("{a*}{b*}", ["a", ",", "a=1,", "k=1=2,"]),
    ("{a*}{+b*}{#c*}{;d*}", ["a=1,", ";a=1", "#"]),
    ("{/a*}{/b*}{/c*}{.d*}", ["/", "/a.b", "/%2F"]),
    ("{;a*}{b*}", [";a=1", ";", "="]),
    ("{+path}{?q,l}", ["?q=", "?", "&q=1", "#?q="]),
    ("{+path}{?q*}{#f}", ["?", "?q=1&q=1", "&a=", "#?a="]),
    ("{?q*}x", ["?a=1", "&a=1"]),
    ("{a:9999}{b:9999}{c}", ["a", "%41"]),
    ("{a,b:3,c}{d}", [",", "a,"]),
    ("{name}.{ext}.aaaaaaaaab", [".", "a", ".a"]),
    ("{a}/{b}", ["a", "%", "%4", "%41", "/"]),
    ("{" + "}{".join(f"v{number}" for number in range(64)) + "}", ["a", "%41"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("template", "patterns"), ADVERSARIES, ids=[template[:30] for template, _ in ADVERSARIES])
def test_matching_is_linear_in_a_hostile_uri(template: str, patterns: list[str]) -> None:
    compiled = UriTemplate(template)
    for pattern in patterns:
        for end in ("", "\x00", "x"):
            quarter, whole = ((pattern * length)[: length - 4] + end for length in (8_192, 32_768))
            compiled.match(quarter)
            assert is_linear(lambda uri=quarter: compiled.match(uri), lambda uri=whole: compiled.match(uri), 10), (
                pattern,
                end,
            )


@pytest.mark.parametrize(
    "pattern", ["{", "}", "{a", "{a}", "{a,", "a", "%41", "%", "{a:1}", "{a.", "{+a*}", "é", " ", "{a:9999,b*}", ","]
)
def test_a_hostile_template_is_parsed_or_refused_at_once(pattern: str) -> None:
    def parse(length: int) -> None:
        try:
            UriTemplate("{v}" + (pattern * length)[:length])
        except UriTemplateError:
            pass

    for length in (8_189, 65_536):
        assert loops(lambda length=length: parse(length)) < 50


def test_a_template_that_begins_otherwise_than_a_uri_costs_no_matcher(monkeypatch: pytest.MonkeyPatch) -> None:
    template = UriTemplate("note://{a}/{b}")
    monkeypatch.setattr(UriTemplate, "prepare", lambda _: pytest.fail("a matcher was created"))
    assert template.match("page://1/2") is None
    assert template.match("note:/1/2") is None


# Access rules


@pytest.mark.parametrize(
    ("template", "values", "location", "head"),
    [
        ("a:{x}/{y}{?q}{#f}", {}, "a:-/-", "a:"),
        ("a:{x}/{y}{?q}{#f}", {"x": "1 2", "q": "3"}, "a:1%202/-", "a:1%202/"),
        ("a:{x}/{y}{&q}", {"y": "1"}, "a:-/1", "a:"),
        ("a:{x,y}/b", {"x": "1"}, "a:1,-/b", "a:"),
        ("a:b{?q}/c", {}, "a:b/c", "a:b/c"),
        ("a:{+x}", {"x": "b/c"}, "a:b/c", "a:b/c"),
    ],
)
def test_the_location_of_a_template_has_no_query_and_its_head_ends_at_the_first_unknown_variable(
    template: str, values: dict[str, Value], location: str, head: str
) -> None:
    assert (UriTemplate(template).location(values), UriTemplate(template).head(values)) == (location, head)
