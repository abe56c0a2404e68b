"""A server for a crowd of listeners: crowd_server.py http small PORT WORKERS [URL of Redis]."""

import os
import sys

import content
from carrel_server import app

from carrel import Limits

CROWD = 100_000
app.limits = Limits(
    max_connections=CROWD,
    max_connections_per_address=CROWD,
    max_requests_in_flight=CROWD,
    max_sessions=CROWD,
    max_sessions_per_client=CROWD,
    max_subscriptions=CROWD,
    max_listeners_per_client=CROWD,
    max_kept_bytes=1 << 30,
    max_kept_bytes_per_client=1 << 30,
)

if __name__ == "__main__":
    port, workers, *redis = sys.argv[3:]
    command = [sys.executable, "-m", "carrel", "run", f"{__file__}:app", "--http", port, "--workers", workers]
    if redis:
        command += ["--state", *redis]
        os.environ["CARREL_STATE_KEYS"] = bytes(32).hex()
    os.execv(sys.executable, command)

for entry in content.entries("small"):
    app.resources.add(entry.uri, entry.body, name=entry.name, description=entry.description, mime_type=entry.mime_type)
