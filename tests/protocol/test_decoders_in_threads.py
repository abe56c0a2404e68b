"""Decoders that several threads need for the first time at the same moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
import msgspec
from carrel.protocol.results import reader

sys.setswitchinterval(1e-6)
for _ in range(300):
    inner = msgspec.defstruct("Inner", [(f"a{number}", "int | str | None", None) for number in range(30)])
    kind = msgspec.defstruct("Kind", [(f"b{number}", list[inner] | None, None) for number in range(20)])
    together = threading.Barrier(4)

    def read():
        together.wait()
        assert reader(kind)(b'{"b19": [{"a29": 7}]}').b19[0].a29 == 7

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.slow
def test_threads_that_need_a_decoder_at_the_same_moment_get_one_that_is_complete() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
