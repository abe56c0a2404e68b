"""A stdio server that starts immediately because it has no imports. It supports the handshake and one resource.

It is used to measure the startup time of a client without the startup time of a server.
"""

import sys

SMALL = (
    '{"contents":[{"uri":"bench://small","mimeType":"text/plain",'
    '"text":"A small text, the size of a note that somebody keeps at hand."}]STATELESS}'
)
STATELESS = ',"resultType":"complete","ttlMs":0,"cacheScope":"private"'
INITIALIZED = (
    '{"protocolVersion":"2025-11-25","capabilities":{"resources":{}},"serverInfo":{"name":"bench","version":"1.0"}}'
)
DISCOVERED = '{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{}}' + STATELESS + "}"

while line := sys.stdin.readline():
    id = line.partition('"id":')[2].partition(",")[0].strip("} \n")
    if "resources/read" in line:
        result = SMALL.replace("STATELESS", STATELESS if "protocolVersion" in line else "")
    elif "server/discover" in line:
        result = DISCOVERED
    else:
        result = INITIALIZED
    if id:
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{id},"result":{result}}}\n')
        sys.stdout.flush()
