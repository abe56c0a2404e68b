"""SFTP server for tests: OpenSSH's sshd with internal-sftp, on a free port, for the user who runs the tests."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.debian import program

__all__ = ["SFTPServer", "sftp_server"]

CONFIG = """
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/authorized
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin prohibit-password
AllowUsers {user}
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
"""


class SFTPServer:
    """Server whose port, user and keys are known. ``files`` is a folder to share."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.files = folder / "files"
        self.identity = str(folder / "client")
        self.known_hosts = str(folder / "known_hosts")

    def url(self, path: Path) -> str:
        """Return the URL of a folder."""
        return f"sftp://{self.user}@127.0.0.1:{self.port}{path}"

    @property
    def options(self) -> dict[str, str]:
        """The options with which a source may log in."""
        return {"identity": self.identity, "known_hosts": self.known_hosts}


@contextmanager
def sftp_server() -> Iterator[SFTPServer]:
    """Run a server until the end of the block."""
    sshd, keygen = program("sshd"), program("ssh-keygen")
    with tempfile.TemporaryDirectory(prefix="carrel-sftp-") as name, socket.create_server(("127.0.0.1", 0)) as listener:
        folder = Path(name).resolve()
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd confines the part without privileges
        for key in ("host", "client", "stranger"):
            subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True, timeout=60)
        server = SFTPServer(folder, listener.getsockname()[1])
        server.files.mkdir()
        (folder / "authorized").write_text((folder / "client.pub").read_text())
        kind, key, *_ = (folder / "host.pub").read_text().split()
        Path(server.known_hosts).write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
        (folder / "config").write_text(CONFIG.format(folder=folder, user=server.user))
        # One process for each connection, as inetd starts them: it is ready at once, and needs no pause to be sure.
        command = [sshd, "-i", "-e", "-f", str(folder / "config")]
        ended = threading.Event()
        processes: list[subprocess.Popen[bytes]] = []

        def accept() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, open(folder / "log", "ab") as log:
                    processes.append(subprocess.Popen(command, stdin=connection, stdout=connection, stderr=log))
                processes[:] = [process for process in processes if process.poll() is None]

        thread = threading.Thread(target=accept, name="sshd")
        thread.start()
        try:
            yield server
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for process in processes:
                process.kill()
                process.wait()
