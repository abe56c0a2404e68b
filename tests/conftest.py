"""Set-up of every test process."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")

# Programs in the background of a script ignore Ctrl-C and pass that on to what they start; several tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing on a busy machine; pytest-timeout ends a test that hangs.
settings.register_profile("carrel", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("carrel")
