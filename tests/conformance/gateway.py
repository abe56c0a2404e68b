"""``carrel gateway`` whose clients speak one revision: ``gateway.py REVISION ARGUMENT…``.

The suite offers 2025-11-25 to servers whatever it is told, so that a gateway for an older revision speaks only that.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn  # noqa: F401 - so that forks of this process have it

import carrel.gateway.logins
import carrel.transports.client.http
import carrel.transports.server.uvicorn  # noqa: F401
from carrel import cli
from carrel.cli.server import gateway as command
from carrel.gateway.gateway import Gateway
from carrel.protocol.revisions import REVISIONS


def main() -> int:
    revision, *arguments = sys.argv[1:]
    create = command.create

    def restricted(*given: Any) -> Gateway:
        made = create(*given)
        made.app.endpoint.description.revisions = {revision: REVISIONS[revision]}
        return made

    assert Gateway.__init__.__kwdefaults__ is not None
    Gateway.__init__.__kwdefaults__["enter_timeout"] = 60.0  # the suite begins when the server is there
    command.create = restricted
    return cli.main(["gateway", *arguments])


if __name__ == "__main__":
    sys.exit(main())
