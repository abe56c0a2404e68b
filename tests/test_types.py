"""Every public type is in ``carrel.types``, and those of the client cost a server nothing."""

from __future__ import annotations

import subprocess
import sys

from carrel import types


def test_every_name_leads_to_its_type() -> None:
    for name in types.__all__:
        assert getattr(types, name) is not None
    assert {name for names in types.MODULES.values() for name in names} < set(types.__all__)


def test_types_of_the_client_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys, carrel.types\n"
        "assert not [name for name in sys.modules if name.startswith('carrel.client')]\n"
        "from carrel.types import Handlers\n"
        "assert 'carrel.client.handlers' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
