"""Server configurations, read from carrel.toml and the configuration files of other applications, and resolved.

for file in discover():
    for server in file.servers: ...
    for problem in file.problems: ...
"""

from carrel.host.config.discover import discover, unique
from carrel.host.config.read import read_file
from carrel.host.config.server_config import ConfigFile, ConfigOrigin, ConfigProblem, Input, ServerConfig

__all__ = ["ConfigFile", "ConfigOrigin", "ConfigProblem", "Input", "ServerConfig", "discover", "read_file", "unique"]
