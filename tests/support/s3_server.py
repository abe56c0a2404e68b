"""S3 server for tests: moto's, in a process of its own on a free port, filled by requests of botocore.

obstore asks Google for objects by its XML API, whose lists and objects are those of S3, so that the server answers for
Google as well. Emulators of Google's JSON API (gcp-storage-emulator) have no lists in XML, and no HEAD.

https://cloud.google.com/storage/docs/xml-api/overview
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.session import Session

__all__ = ["BUCKET", "CREDENTIALS", "S3Server", "s3_server"]

BUCKET = "shelf"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "carrel", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests"}

PROGRAM = """
import sys, threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


class S3Server:
    """Server with one bucket that can be filled."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        names = {"aws_access_key_id": "carrel", "aws_secret_access_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}
        self.client: Any = Session().create_client("s3", region_name="us-east-1", endpoint_url=self.endpoint, **names)
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, key: str, data: bytes | str, bucket: str = BUCKET, access: str = "private") -> None:
        """Store an object; with the access ``public-read``, it is there for those without credentials of Amazon."""
        body = data.encode() if isinstance(data, str) else data
        self.client.put_object(Bucket=bucket, Key=key, Body=body, ACL=access)

    def remove(self, key: str) -> None:
        """Remove an object."""
        self.client.delete_object(Bucket=BUCKET, Key=key)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline()
            assert port, "moto's server did not start: pip install 'moto[server]'"
            server = S3Server(int(port))
            yield server
            server.client.close()
        finally:
            process.kill()
