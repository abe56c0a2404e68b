"""Sessions and logins of ``carrel gateway``, by the settings of [gateway]."""

import pytest

from carrel import Server
from carrel.cli.config.read import read_configuration
from carrel.cli.server import gateway
from carrel.cli.server.gateway_sessions import isolation_options
from carrel.cli.server.http_options import read_http_options
from carrel.errors import ConfigError
from carrel.gateway.browser_login import IssuerLogin
from carrel.gateway.grants import Grants
from carrel.gateway.sessions import SessionLimits

KEY = "0f" * 32


def options_of(tmp_path, text, *arguments):
    """Return the options of a gateway with a configuration file."""
    file = tmp_path / "carrel.toml"
    file.write_text(text)
    configuration = read_configuration(
        gateway.parser().parse_intermixed_args(["--config", str(file), *arguments]), targeted=False
    )
    return isolation_options(
        configuration, read_http_options(configuration), lambda: Server("gateway").endpoint.replica
    )


def test_limits_of_sessions_are_set_in_the_file(tmp_path):
    found = options_of(tmp_path, "[gateway]\nmax_sessions = 3\nmax_sessions_per_principal = 2\nidle_seconds = 60\n")
    assert found["sessions"] == SessionLimits(max_sessions=3, max_sessions_per_principal=2, idle_seconds=60)


def test_on_stdio_the_user_of_this_machine_logs_in(tmp_path):
    grants = options_of(tmp_path, "")["grants"]
    assert callable(grants)
    made = grants()
    assert isinstance(made, Grants)
    assert made.pages is None
    assert options_of(tmp_path, "[gateway]\nlogins = false\n")["grants"] is None


def test_over_http_browsers_reach_the_gateway_at_its_public_url(tmp_path):
    text = '[auth]\nissuer = "https://auth.example"\nresource = "https://gw.example/mcp"\n[gateway]\npublic_url = '
    found = options_of(tmp_path, text + '"https://gw.example"\nclient_id = "gw"\n', "--http", "0")["grants"]
    assert found.pages.redirect_uri == "https://gw.example/gateway/callback"
    assert isinstance(found.pages._login, IssuerLogin)
    with pytest.raises(ConfigError, match=r"\[gateway\] public_url: .* must be https"):
        options_of(tmp_path, text + '"http://gw.example"\n', "--http", "0")


def test_there_are_no_logins_where_callers_or_browsers_are_not_known(tmp_path):
    assert options_of(tmp_path, "", "--http", "0")["grants"] is None
    public = '[gateway]\npublic_url = "https://gw.example"\n'
    assert options_of(tmp_path, public, "--http", "0.0.0.0:0", "--insecure")["grants"] is None


def test_keys_of_grants_are_secrets_of_the_right_length(tmp_path, monkeypatch):
    monkeypatch.setenv("CARREL_GATEWAY_KEYS", KEY)
    assert isinstance(options_of(tmp_path, "")["grants"](), Grants)
    monkeypatch.setenv("CARREL_GATEWAY_KEYS", "abc")
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        options_of(tmp_path, "")
