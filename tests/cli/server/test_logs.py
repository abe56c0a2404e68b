"""Logs of the commands: text for people, JSON lines for programs."""

import json
import logging
from collections.abc import Iterator

import pytest

from carrel.cli.server.logs import configure


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_json_log_is_one_object_per_line_with_the_traceback_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", "info")
    logging.getLogger("carrel").info("read %s", "糖尿病.txt")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("carrel").exception("failed")
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["level"], first["logger"], first["message"]) == ("info", "carrel", "read 糖尿病.txt")
    assert first["time"].endswith("Z")
    assert "ValueError: two\nlines" in second["traceback"]


def test_a_text_log_says_how_bad_it_is_and_leaves_out_what_is_not_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "warning")
    logging.getLogger("carrel").info("too much")
    logging.getLogger("carrel").warning("enough")
    assert capsys.readouterr().err == "WARNING carrel: enough\n"
