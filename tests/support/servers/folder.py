"""A server on stdio that shares the folder in its argument."""

import sys

from carrel import Server

app = Server("folder")
app.add_provider(sys.argv[1])
app.run()
