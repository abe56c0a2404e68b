"""``carrel prompt``: the messages of a prompt."""

import json

import pytest

from support.carrel_process import BOOKS, carrel


def test_messages_are_printed_with_their_roles_and_as_json():
    assert carrel("prompt", BOOKS, "review", "code=x = 1").stdout == b"[user]\nx = 1\n"
    messages = json.loads(carrel("prompt", BOOKS, "review", "code=x", "--json").stdout)["messages"]
    assert messages == [{"role": "user", "content": {"type": "text", "text": "x"}}]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["review"], "review needs code"),
        (["review", "cod=x"], "review has no argument 'cod'; did you mean 'code'?"),
        (["review", "code"], "'code' is not an argument: write key=value"),
        (["revew"], "books.py has no prompt 'revew'; did you mean 'review'?"),
    ],
)
def test_wrong_arguments_are_named(arguments, complaint):
    done = carrel("prompt", BOOKS, *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr.decode()
