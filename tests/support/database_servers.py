"""PostgreSQL and MariaDB servers for tests: private ones, in a temporary folder, on Unix sockets, never as root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.debian import program

TIMEOUT = 200.0


def account() -> dict[str, object]:
    """Return the arguments of subprocess that make a server run as another user than root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextmanager
def folder() -> Iterator[Path]:
    # The path of a Unix socket has about 100 characters at most, which the folders of pytest exceed.
    path = Path(tempfile.mkdtemp(prefix="carrel-db-"))
    try:
        if os.geteuid() == 0:
            os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def server(command: list[str], path: Path, ready: list[str], stop: signal.Signals) -> Iterator[None]:
    """Run a server until the end of the block; ``ready`` is a command that succeeds when it answers."""
    log = path / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=path, **account()
        )
    try:
        end = time.monotonic() + TIMEOUT
        while subprocess.run(ready, capture_output=True, check=False).returncode:
            assert process.poll() is None, f"{command[0]} has ended:\n{log.read_text(errors='replace')[-3000:]}"
            assert time.monotonic() < end, f"{command[0]} does not answer:\n{log.read_text(errors='replace')[-3000:]}"
            time.sleep(0.05)  # it says nowhere that it is ready
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def postgres() -> Iterator[Path]:
    """Run PostgreSQL; the folder has its socket. The superuser is ``postgres``, and needs no password there."""
    with postgres_folder() as path, running_postgres(path):
        yield path


@contextmanager
def postgres_folder() -> Iterator[Path]:
    """Make the folder of a PostgreSQL server that does not run yet."""
    create = program("initdb")
    with folder() as path:
        data = path / "data"
        subprocess.run(
            [create, "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8"],
            check=True,
            capture_output=True,
            cwd=path,
            timeout=TIMEOUT,
            **account(),
        )
        with open(data / "pg_hba.conf", "w") as access:
            access.write("local all locked scram-sha-256\nlocal all all trust\n")
        yield path


@contextmanager
def running_postgres(path: Path) -> Iterator[None]:
    """Run PostgreSQL on the data in a folder."""
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(path),
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "autovacuum": "off",
        "jit": "off",
        "wal_level": "logical",
        "max_connections": "60",
        "shared_buffers": "16MB",
        "stats_fetch_consistency": "none",
    }
    flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    ready = [program("psql"), "-h", str(path), "-U", "postgres", "-c", "SELECT 1", "-d", "postgres"]
    with server([program("postgres"), "-D", str(path / "data"), *flags], path, ready, signal.SIGINT):
        yield


class PostgresClient:
    """One process of PostgreSQL's own client, which connects anew for each call."""

    END = "-- end --"

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [program("psql"), "-h", str(path), "-U", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", "postgres"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"},
        )

    def __enter__(self) -> PostgresClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=TIMEOUT)

    def run(self, database: str, *statements: str) -> str:
        """Run statements in a database, and return what the client prints.

        Raises:
            AssertionError: a statement failed; the client has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            ended = ";\n".join(statements)
            self._process.stdin.write(f"\\connect {database}\n{ended};\n\\connect postgres\n\\echo {self.END}\n")
            self._process.stdin.flush()
            printed = ""
            while (line := self._process.stdout.readline()) != f"{self.END}\n":
                assert line, printed
                printed += line
            return printed


@contextmanager
def mariadb() -> Iterator[Path]:
    """Run MariaDB; the folder has its socket, ``socket``. The user ``root`` needs no password there."""
    binary = program("mariadbd")
    with folder() as path:
        data, socket = path / "data", path / "socket"
        data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(data, "nobody")
        done = subprocess.run(
            [binary, "--no-defaults", "--bootstrap", f"--datadir={data}", "--log-warnings=0"],
            input=bootstrap(),
            capture_output=True,
            cwd=path,
            timeout=TIMEOUT,
            check=False,
            **account(),
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
        command = [
            *(binary, "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking"),
            *("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M", f"--pid-file={path}/pid"),
        ]
        with server(command, path, ["python3", "-c", WAIT, str(socket)], signal.SIGTERM):
            yield path


#: A server that accepts connections on its socket is ready.
WAIT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


def bootstrap() -> bytes:
    """Return the SQL that makes MariaDB's system tables, as its installer would."""
    shared = next(Path(place) for place in ("/usr/share/mysql", "/usr/share/mariadb") if Path(place).is_dir())
    begin = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n"
    names = ("system_tables", "performance_tables", "system_tables_data")
    files = [next(shared.glob(f"m*_{name}.sql")) for name in names]
    return begin + b"\n".join(file.read_bytes() for file in files)
