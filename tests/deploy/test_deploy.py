"""The files in `deploy/` fit the program: its commands, settings and metrics. What others can check, is checked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from tenfold.apps.cli.main import app
from tenfold.apps.gateway.request_log import RequestLog, RequestRecord
from tenfold.apps.jobs.job_settings import load_job_settings
from tenfold.config.settings import load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
_METRIC = re.compile(r"\b(tenfold_\w+?)(?:_bucket)?(?=[{\[)\s,]|$)")


def read_documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def list_expressions() -> Iterator[str]:
    """What the dashboard and the alerts ask Prometheus for."""
    for panel in json.loads((DEPLOY / "grafana/tenfold.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    (alerts,) = read_documents("prometheus/alerts.yaml")
    for group in alerts["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_dashboard_and_alerts_ask_for_metrics_that_there_are() -> None:
    log = RequestLog()
    log.add(RequestRecord("POST", "/", "acme", "openai-chat", "gpt-5", "s", 200, compaction="compacted", bypass="x"))
    log.jobs.labels("waiting").set(1)
    lines = [line for line in log.render_metrics().decode().splitlines() if not line.startswith("#")]
    labels: dict[str, set[str]] = {}
    for line in lines:
        name = line.partition("{")[0].partition(" ")[0].removesuffix("_bucket")
        labels.setdefault(name, set()).update(re.findall(r"(\w+)=\"", line))
    asked = 0
    for expression in list_expressions():
        for name in _METRIC.findall(expression):
            asked += 1
            assert name in labels, f"{name} in {expression}"
        for found, chosen in re.findall(r"(tenfold_\w+)\{([^}]*)\}", expression):
            used = set(re.findall(r"(\w+)=", chosen))
            assert used <= labels[found.removesuffix("_bucket")] | {"le"}, expression
    assert asked > 20


def test_each_alert_has_a_reason_and_a_next_step() -> None:
    (alerts,) = read_documents("prometheus/alerts.yaml")
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len(rules) >= 8
    for rule in rules:
        assert {"summary", "reason", "action"} <= rule["annotations"].keys(), rule["alert"]


def test_prometheus_takes_the_alerts() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool: the rules are read as YAML alone")
    subprocess.run([promtool, "check", "rules", str(DEPLOY / "prometheus/alerts.yaml")], check=True, timeout=60)


def list_command_lines() -> Iterator[list[str]]:
    """The command lines of all files, without the name of the program."""
    (compose,) = read_documents("compose.yaml")
    yield from (service["command"] for service in compose["services"].values() if "command" in service)
    for pod in list_pods():
        yield from (container["args"] for container in pod["containers"])
    for unit in (DEPLOY / "systemd").glob("*.service"):
        for line in re.findall(r"^ExecStart=/opt/tenfold/bin/tenfold (.*)$", unit.read_text(), re.MULTILINE):
            yield line.split()
    for line in re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        yield json.loads(line)


def list_pods() -> Iterator[dict[str, Any]]:
    for document in read_documents("kubernetes/tenfold.yaml"):
        if "template" in document.get("spec", {}):
            yield document["spec"]["template"]["spec"]


def test_the_commands_and_their_options_exist() -> None:
    lines = list(list_command_lines())
    assert len(lines) >= 8
    for line in lines:
        command: Any = get_command(app)
        rest = list(line)
        while rest and hasattr(command, "get_command"):
            name = rest.pop(0)
            found = command.get_command(None, name)
            assert found is not None, line
            command = found
        options = {option for parameter in command.params for option in parameter.opts}
        assert {part for part in rest if part.startswith("--")} <= options, line


def test_the_settings_can_be_read() -> None:
    config = load_settings(DEPLOY / "tenfold.toml", environ={})
    assert config.common.model
    assert load_job_settings(config).retention.schedule
    (settings,) = [d for d in read_documents("kubernetes/tenfold.yaml") if d["kind"] == "ConfigMap"]
    assert "model = " in settings["data"]["tenfold.toml"]


def test_no_container_is_root_or_writes_to_its_own_file_system() -> None:
    pods = list(list_pods())
    assert len(pods) == 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            own = container["securityContext"]
            assert (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"]) == (True, False)
            assert own["capabilities"] == {"drop": ["ALL"]}
    (compose,) = read_documents("compose.yaml")
    for name in ("gateway", "worker", "migrate"):
        service = compose["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    assert re.search(r"^USER 10001$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
