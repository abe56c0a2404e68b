"""examples/deploy/: Kubernetes manifests and a Compose file, whose names agree, and whose arguments carrel accepts."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from carrel.cli.config.read import read_configuration
from carrel.cli.server import serve
from support.carrel_process import carrel, serving
from support.debian import program
from support.http_process import free_port
from support.redis_servers import redis_server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "deploy"
KEY = "ab" * 32


def manifests() -> dict[str, Any]:
    """Return the manifests by kind."""
    found = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")))
    kinds = [each["kind"] for each in found]
    assert len(set(kinds)) == len(kinds)
    return {each["kind"]: each for each in found}


def services() -> dict[str, Any]:
    """Return the services of the Compose file."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return found


def container() -> dict[str, Any]:
    """Return the container of the Deployment."""
    (found,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]


def arguments_of(kind: str) -> tuple[list[str], str]:
    """Return the arguments of ``carrel`` in one of the files, and its carrel.toml."""
    if kind == "kubernetes":
        return container()["args"], manifests()["ConfigMap"]["data"]["carrel.toml"]
    # In a Compose file, $$ is a dollar sign.
    command = [argument.replace("$$", "$") for argument in services()["carrel"]["command"]]
    return command, (FOLDER / "carrel.toml").read_text(encoding="utf-8")


def moved(arguments: list[str], folder: Path, **replaced: str) -> list[str]:
    """Return arguments with the paths of this machine."""
    places = {"/data": str(ROOT / "examples" / "library"), "--config": f"--config={folder / 'carrel.toml'}", **replaced}
    return [places.get(argument.partition("=")[0], argument) for argument in arguments]


@pytest.mark.parametrize("kind", ["kubernetes", "compose"])
def test_the_command_accepts_the_arguments(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, settings = arguments_of(kind)
    assert command[0] == "serve"
    monkeypatch.setenv("CARREL_STATE_KEYS", KEY)
    (tmp_path / "carrel.toml").write_text(settings)
    options = serve.parser().parse_intermixed_args(moved(command[1:], tmp_path))
    found = read_configuration(options, targeted=True).settings
    assert (found.http.host, found.http.port) == ("0.0.0.0", 8000)
    assert found.metrics.port == 9464
    assert found.state.url == "redis://default:${env:REDIS_PASSWORD}@redis:6379/0"


@pytest.mark.parametrize("kind", ["kubernetes", "compose"])
async def test_the_command_runs_and_its_probes_answer(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, settings = arguments_of(kind)
    metrics = free_port()
    (tmp_path / "carrel.toml").write_text(settings.replace("9464", str(metrics)))
    monkeypatch.setenv("CARREL_STATE_KEYS", KEY)
    monkeypatch.setenv("REDIS_PASSWORD", "right")
    port = free_port()
    with redis_server("redis-server", "--port", str(port), "--requirepass", "right"):
        state = next(argument for argument in command if argument.startswith("--state="))
        changed = moved(
            command,
            tmp_path,
            **{"--http": "--http=127.0.0.1:0", "--state": state.replace("redis:6379", f"127.0.0.1:{port}")},
        )
        with serving(*changed, http=()) as (url, _):
            async with httpx2.AsyncClient(timeout=60) as http:
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    path = container()[probe]["httpGet"]["path"]
                    await answers(http, f"http://127.0.0.1:{metrics}{path}")
                answer = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
                assert answer.status_code < 500


async def answers(http: httpx2.AsyncClient, url: str) -> None:
    """Wait until a probe succeeds: a server is not ready while it starts."""
    async with asyncio.timeout(60):
        while (answer := await http.get(url)).status_code != 200:
            assert "start" in answer.text, answer.text
            await asyncio.sleep(0.05)


def test_the_names_in_the_manifests_agree() -> None:
    found, pod = manifests(), container()
    deployment = found["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
    assert ports == {"mcp": 8000, "metrics": 9464}
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} <= ports.keys()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert pod[probe]["httpGet"]["port"] == "metrics"
    secret = found["Secret"]
    for variable in pod["env"]:
        reference = variable["valueFrom"]["secretKeyRef"]
        assert reference["name"] == secret["metadata"]["name"]
        assert reference["key"] in secret["stringData"]
    target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert "replicas" not in deployment["spec"], "the autoscaler sets it"
    volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in pod["volumeMounts"]} == volumes.keys()
    assert volumes["configuration"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    (sleep, seconds), grace = (
        pod["lifecycle"]["preStop"]["exec"]["command"],
        deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
    )
    assert sleep == "sleep"
    assert int(seconds) + 30 <= grace


def test_a_key_that_was_not_replaced_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_STATE_KEYS", manifests()["Secret"]["stringData"]["keys"])
    monkeypatch.setenv("REDIS_PASSWORD", "x")
    command, settings = arguments_of("kubernetes")
    (tmp_path / "carrel.toml").write_text(settings)
    done = carrel(*moved(command, tmp_path), text=True)
    assert done.returncode == 2
    assert "64 hexadecimal digits" in done.stderr


def files_of(service: dict[str, Any]) -> Iterator[str]:
    for volume in service.get("volumes", ()):
        yield re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).rpartition(":")[0].partition(":")[0]


def test_the_names_in_the_compose_file_agree() -> None:
    found = services()
    for service in found.values():
        assert set(service.get("depends_on", ())) <= found.keys()
        for file in files_of(service):
            assert (FOLDER / file).exists(), file
    build = found["carrel"]["build"]
    dockerfile = (FOLDER / build["context"] / build["dockerfile"]).read_text(encoding="utf-8")
    assert {f"ARG {name}=" in dockerfile for name in build["args"]} == {True}
    proxy = (FOLDER / "haproxy.cfg").read_text(encoding="utf-8")
    ((count, port, checked),) = re.findall(r"server-template \w+ (\d+) carrel:(\d+) check port (\d+)", proxy)
    assert int(count) >= found["carrel"]["deploy"]["replicas"]
    assert f"--http=0.0.0.0:{port}" in found["carrel"]["command"]
    assert f"port = {checked}" in (FOLDER / "carrel.toml").read_text(encoding="utf-8")
    (inside,) = re.findall(r"bind :(\d+)", proxy)
    assert found["haproxy"]["ports"][0].endswith(f":{inside}")
    assert "@redis:6379/" in "".join(found["carrel"]["command"])


def test_haproxy_accepts_its_configuration() -> None:
    done = subprocess.run(
        [program("haproxy"), "-c", "-f", str(FOLDER / "haproxy.cfg")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "valid" in done.stdout + done.stderr or not done.stderr


def has_compose() -> bool:
    """Return whether the docker command has its plugin compose."""
    try:
        return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not has_compose(), reason="needs docker compose")
def test_docker_accepts_the_compose_file() -> None:
    environment = {**os.environ, "CARREL_STATE_KEYS": KEY, "REDIS_PASSWORD": "right"}
    done = subprocess.run(
        ["docker", "compose", "-f", str(FOLDER / "compose.yaml"), "config", "--quiet"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
