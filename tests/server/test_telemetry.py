"""Telemetry is set up for a whole process, so its tests have one of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_spans_and_metrics_follow_the_conventions() -> None:
    checks = Path(__file__).with_name("telemetry_in_process.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", str(checks)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 passed" in done.stdout


def test_without_the_sdk_nothing_of_it_is_loaded_or_called() -> None:
    code = (
        "import sys, asyncio, opentelemetry.trace\n"
        "from carrel import Server\n"
        "app = Server('plain')\n"
        "async def main():\n"
        "    before = dict(app.endpoint.runtime.operations)\n"
        "    await app.endpoint.start()\n"
        "    assert app.endpoint.runtime.operations == before and not app._dispatch._middleware\n"
        "    await app.endpoint.stop()\n"
        "asyncio.run(main())\n"
        "assert 'opentelemetry.sdk' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
