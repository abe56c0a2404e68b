"""The configuration file of ``carrel serve``."""

from argparse import Namespace

import pytest

from carrel import Limits
from carrel.cli.serve_file import read_serve_file
from carrel.cli.source_flags import SourceFlags
from carrel.cli.targets import read_targets
from carrel.errors import ConfigError

NOTHING = Namespace(targets=[], skills=[])


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "carrel.toml"
        path.write_text(text)
        return str(path)

    return write


def test_it_says_what_the_flags_say(write, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "skills").mkdir()
    file = read_serve_file(
        write("""
name = "project"
tools = false
page_size = 7
limits.max_sessions = 5

[[sources]]
url = "docs"
include = ["*.md"]
max_size = "20MiB"

[[sources]]
url = "skills:skills"
hidden = true
""")
    )
    assert (file.name, file.tools, file.page_size, file.limits) == ("project", False, 7, Limits(max_sessions=5))
    targets = read_targets(NOTHING, SourceFlags([]), file.targets(), str(tmp_path))
    assert targets == [
        ("file", str(tmp_path / "docs"), {"include": ["*.md"], "max_size": 20 * 1024 * 1024}),
        ("skills", str(tmp_path / "skills"), {"hidden": True}),
    ]


def test_every_option_of_a_flag_is_a_key(write):
    for scheme, flags in SourceFlags().by_scheme.items():
        for flag in flags:
            with pytest.raises(ConfigError, match=f"for `{flag.name}`"):
                read_serve_file(write(f'[[sources]]\nurl = "{scheme}:///x"\n{flag.name} = {{}}\n')).targets()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "carrel.toml is not TOML"),
        ("nam = 'x'", "there is no key `nam`|there is no option `nam`"),
        ("page_size = 'x'", "Expected `int \\| null`, got `str` for `page_size`"),
        ("[[sources]]\nincluded = []", "needs a url"),
        ("[[sources]]\nurl = 'docs'\nincluded = []", "docs: there is no option `included`"),
        ("[[sources]]\nurl = 'docs'\nmax_size = 'x'", "max_size of docs: 'x' is not a size"),
        ("[[sources]]\nurl = 'imap://x'", "There is no source for imap: URLs"),
    ],
)
def test_what_is_wrong_in_it_is_named(text, complaint, write):
    with pytest.raises(ConfigError, match=complaint):
        read_serve_file(write(text)).targets()


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"carrel\.toml cannot be read: No such file"):
        read_serve_file(str(tmp_path / "carrel.toml"))
