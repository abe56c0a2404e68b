"""mcp-proxy on stdio before one server over HTTP: mcp_proxy_gateway.py stdio URL. Not before one on stdio."""

import sys

from mcp_proxy.__main__ import main

if __name__ == "__main__":
    target = sys.argv[2]
    if not target.startswith("http:"):
        sys.exit("mcp-proxy leads from stdio to HTTP, or from HTTP to stdio, and not from stdio to stdio")
    sys.argv[1:] = ["--transport", "streamablehttp", "--log-level", "WARNING", target]
    main()
