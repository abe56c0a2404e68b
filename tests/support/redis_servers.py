"""Redis and Valkey servers for tests: private ones, on a Unix socket in a temporary folder.

The clock of Redis can stand still. The clock of Valkey cannot be faked (it ends with a segmentation fault), so there
its records are made older.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from glob import glob
from pathlib import Path

import redis

from support.database_servers import account, folder
from support.debian import program

__all__ = ["FakeClock", "RedisServer", "age", "redis_server"]

TIMEOUT = 60.0
#: The library that fakes the clock must not meet the allocator of the server, which asks for the time too early.
PRELOADED = ("/usr/lib/*/faketime/libfaketime.so.1", "/lib/*/libc.so.6")


class FakeClock:
    """Clock of a server: it stands still until it is advanced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._now = datetime.now(UTC)
        self.advance(0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += timedelta(seconds=seconds)
        new = self.path.with_name("new-clock")
        new.write_text(self._now.strftime("%Y-%m-%d %H:%M:%S.%f"))
        new.replace(self.path)

    @property
    def environment(self) -> dict[str, str]:
        program("libfaketime")
        libraries = [found for pattern in PRELOADED for found in glob(pattern)[:1]]
        return {
            "LD_PRELOAD": ":".join(libraries),
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TZ": "UTC",
        }


#: Makes everything in a store older. KEYS: leases. ARGV: pattern of the keys of the store, seconds.
AGE = """
redis.call('PERSIST', KEYS[1])
for _, slot in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  redis.call('ZINCRBY', KEYS[1], -1000000 * ARGV[2], slot)
end
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, math.floor(left - 1000 * ARGV[2])) end
  if string.find(key, ':bucket:') and redis.call('EXISTS', key) == 1 then
    redis.call('HINCRBYFLOAT', key, 'at', -ARGV[2])
  end
end
"""


def age(server: "RedisServer", prefix: str, seconds: float) -> None:
    """Make all records of a store older."""
    with redis.Redis(unix_socket_path=str(server.socket)) as client:
        client.eval(AGE, 1, f"{{{prefix}}}:leases", f"{{{prefix}}}:*", str(seconds))


class RedisServer:
    """A server, which can be stopped and started again. ``kind`` is ``redis-server`` or ``valkey-server``."""

    def __init__(self, kind: str, path: Path, clock: FakeClock | None, arguments: tuple[str, ...]) -> None:
        self.path = path
        self.socket = path / "socket"
        self.url = f"unix://{self.socket}"
        self.clock = clock
        self._command = [program(kind), "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "777"]
        self._command += ["--dir", str(path), "--save", "", "--appendonly", "no", *arguments]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        log = self.path / "log"
        environment = {**os.environ, **(self.clock.environment if self.clock else {})}
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.path,
                env=environment,
                **account(),  # type: ignore[call-overload]
            )
        end = time.monotonic() + TIMEOUT
        while not self._answers():
            assert self.process.poll() is None, f"{self._command[0]} has ended:\n{log.read_text()[-3000:]}"
            assert time.monotonic() < end, f"{self._command[0]} does not answer:\n{log.read_text()[-3000:]}"
            time.sleep(0.02)  # it says nowhere that it is ready

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.settimeout(5)
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(100).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

    def stop(self) -> None:
        """Kill the server: it loses everything."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def redis_server(kind: str = "redis-server", *arguments: str, clock: bool = False) -> Iterator[RedisServer]:
    """Run a server until the end of the block; optionally with a ``clock`` that stands still."""
    with folder() as path:
        server = RedisServer(kind, path, FakeClock(path / "clock") if clock else None, arguments)
        server.start()
        try:
            yield server
        finally:
            server.stop()
