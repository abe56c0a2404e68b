"""Programs and libraries that tests need: from PATH, or from Debian's folders.

Where some are missing and the tests run as root on Debian, they are installed. ``python tests/support/debian.py``
installs all of them at once, before the tests; else each test that needs one fails and says what to install.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from ctypes.util import find_library
from glob import glob
from pathlib import Path

#: Debian's packages of the programs, and of libraries.
PACKAGES = {
    "Xvfb": "xvfb",
    "bash": "bash",
    "caddy": "caddy",
    "chromium-headless-shell": "chromium-headless-shell",
    "fish": "fish",
    "haproxy": "haproxy",
    "initdb": "postgresql",
    "journalctl": "systemd",
    "libxcb-randr.so": "libxcb-randr0",
    "libxcb-render.so": "libxcb-render0",
    "libxcb-shm.so": "libxcb-shm0",
    "libxcb-xfixes.so": "libxcb-xfixes0",
    "libfaketime": "libfaketime",
    "logrotate": "logrotate",
    "mariadbd": "mariadb-server-core",
    "nginx": "nginx-light",
    "postgres": "postgresql",
    "psql": "postgresql",
    "redis-server": "redis-server",
    "ssh-keygen": "openssh-client",
    "rsyslogd": "rsyslog",
    "sshd": "openssh-server",
    "systemd-journal-remote": "systemd-journal-remote",
    "valkey-server": "valkey-server",
    "zsh": "zsh",
}
#: Packages that Debian 12 has in bookworm-backports only.
BACKPORTS = {"valkey-server": ("valkey-server", "valkey-tools")}
#: Libraries that programs load by path, since they are in a folder of their own.
LIBRARIES = {"libfaketime": "/usr/lib/*/faketime/libfaketime.so.1"}
#: Folders of programs that Debian keeps out of PATH.
PLACES = ("/usr/sbin", "/usr/libexec", "/usr/lib/systemd", "/usr/lib/postgresql/*/bin")


def program(name: str) -> str:
    """Return the path of a program, or the name of a library; install its package if that is possible."""
    found = find(name)
    if found is None:
        install({name})
        found = find(name)
    assert found is not None, f"these tests need {name}: install {PACKAGES[name]} (apt-get install {PACKAGES[name]})"
    return found


def find(name: str) -> str | None:
    """Return the path of a program, or the name of a library, or None."""
    if name.endswith(".so"):
        return find_library(name.removeprefix("lib").removesuffix(".so"))
    if name in LIBRARIES:
        return next(iter(glob(LIBRARIES[name])), None)
    places = [os.environ.get("PATH", ""), *(place for one in PLACES for place in sorted(glob(one), reverse=True))]
    return shutil.which(name, path=os.pathsep.join(places))


def install(names: set[str]) -> None:
    """Install the packages of the programs that are missing, as root on Debian; elsewhere do nothing."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    with open(Path(tempfile.gettempdir(), "carrel-apt.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = sorted({PACKAGES[name] for name in names if find(name) is None})
        if not missing:
            return  # another worker has installed them meanwhile
        sys.stderr.write(f"installing {', '.join(missing)} for the tests\n")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        apt = ["apt-get", "-y", "-qq", "-o", "DPkg::Lock::Timeout=300"]
        with tempfile.TemporaryDirectory() as folder:
            if BACKPORTS.keys() & set(missing) and "bookworm" in Path("/etc/os-release").read_text():
                sources = Path(folder, "backports.list")
                key = "/usr/share/keyrings/debian-archive-keyring.gpg"
                place = "http://deb.debian.org/debian bookworm-backports main"
                sources.write_text(f"deb [signed-by={key}] {place}\n")
                apt += ["-o", f"Dir::Etc::sourcelist={sources}"]
                old = [f"{part}/bookworm-backports" for name in missing for part in BACKPORTS.get(name, ())]
                missing = [name for name in missing if name not in BACKPORTS] + old
            for arguments in (["update"], ["install", "--no-install-recommends", *missing]):
                subprocess.run([*apt, *arguments], check=True, env=environment, stdout=subprocess.DEVNULL, timeout=900)


if __name__ == "__main__":
    install(set(PACKAGES))
    for name, package in PACKAGES.items():
        if find(name) is None:
            sys.stderr.write(f"{name} is missing, and its tests will fail: install {package}\n")
