"""The files in ``deploy/``: no container runs here, but every command, option, setting, port and path is checked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml
from cryptography import x509

from tocsin import __version__, config
from tocsin.cli.main import application
from tocsin.http.tls import Tls

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PARTS = ["cluster", "coordinator", "north", "south"]
UNITS = sorted(path.name for path in (DEPLOY / "systemd").glob("*.service"))
LOADERS: dict[str, Any] = {
    "cluster": config.load,
    "broker": config.load_broker,
    "coordinator": config.load_coordinator,
}
MODELS: dict[str, Any] = {
    "TOCSIN_": config.ClusterConfig,
    "TOCSIN_BROKER_": config.BrokerConfig,
    "TOCSIN_COORDINATOR_": config.CoordinatorConfig,
}
SETTINGS = {row[1] for variables, model in MODELS.items() for row in config.rows(model, variables=variables)}
# Of the commands that talk to the data cluster.
SETTINGS.add("TOCSIN_TOKEN")


def configured(words: list[str], env: dict[str, str]) -> Any:
    """The configuration of a part, from the real command line and the real loader of variables."""
    name, *options = words
    command: Any = typer.main.get_command(application())
    parsed = command.commands[name].make_context(name, options).params
    assert set(env) <= SETTINGS, set(env) - SETTINGS
    return LOADERS[name](None, env, **{key: value for key, value in parsed.items() if key not in ("log", "json")})


def linter(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def passes(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr


# -- the image ---------------------------------------------------------------------------------------------------------


def instructions(kind: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", CONTAINERFILE)
    return re.findall(rf"^{kind} (.+)$", joined, re.MULTILINE)


def image_env() -> dict[str, str]:
    (line,) = instructions("ENV")
    return dict(word.split("=", 1) for word in line.split())


def test_the_container_file_passes_the_linter():
    passes(linter("hadolint"), str(DEPLOY / "Containerfile"))


def test_the_image_is_built_from_files_that_exist_and_are_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    for line in instructions("COPY"):
        if line.startswith("--from="):
            continue
        for source in line.split()[:-1]:
            assert (ROOT / source).exists() and f"!{source}" in ignored, source


def test_every_package_in_the_image_is_checked_against_a_lock_file():
    installs = [each for line in instructions("RUN") for each in line.split("&&") if "pip install" in each]
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
    build = re.findall(r"awk '(.+?)' requirements-dev.lock", CONTAINERFILE)[0]
    lock = (ROOT / "requirements-dev.lock").read_text()
    kept = subprocess.run(["awk", build], input=lock, capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"setuptools==\S+ \\\n(    --hash=sha256:\w+( \\)?\n)+", kept)


def test_the_image_does_not_run_as_root_and_keeps_its_data_in_the_volume():
    (user,), (volume,) = instructions("USER"), instructions("VOLUME")
    assert user == "10001:10001" and "--uid 10001" in CONTAINERFILE
    env = image_env()
    settings = {name: value for name, value in env.items() if name.startswith("TOCSIN_")}
    for part in LOADERS:
        found = configured([part], settings)
        assert found.host == "0.0.0.0" and found.home.startswith(volume + "/")
    assert env["HOME"] == volume == instructions("WORKDIR")[-1]


def test_the_image_exposes_the_ports_of_the_parts():
    (exposed,) = instructions("EXPOSE")
    (inside,) = {configured_service(name).inside_port for name in ("north", "south")}
    ports = [config.ClusterConfig().port, config.BrokerConfig().port, config.CoordinatorConfig().port, inside]
    assert exposed.split() == [str(port) for port in ports]


# -- compose -----------------------------------------------------------------------------------------------------------


def substituted(value: str, env: dict[str, str]) -> str:
    """Compose's variables: ``${NAME:-default}`` and ``${NAME:?why}``."""

    def one(found: re.Match[str]) -> str:
        name, sign, rest = found.groups()
        assert sign == "-" or env.get(name), f"{name} is needed: {rest}"
        return env.get(name) or rest

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", one, value)


def service_env(name: str) -> dict[str, str]:
    given = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    given |= {key: "made" for key, value in given.items() if not value}
    return {key: substituted(value, given) for key, value in COMPOSE["services"][name]["environment"].items()}


def configured_service(name: str) -> Any:
    settings = {key: value for key, value in image_env().items() if key.startswith("TOCSIN_")}
    return configured(COMPOSE["services"][name]["command"], settings | service_env(name))


def test_the_compose_file_is_valid():
    file = str(DEPLOY / "compose.yaml")
    passes(linter("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", file)


def test_every_variable_of_the_compose_file_is_in_the_example():
    used = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    assert used == set(re.findall(r"^(\w+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))


def test_the_parts_find_each_other():
    cluster, coordinator = configured_service("cluster"), configured_service("coordinator")
    at_cluster, at_coordinator = f"https://cluster:{cluster.port}", f"https://coordinator:{coordinator.port}"
    assert coordinator.cluster == at_cluster
    assert coordinator.join_secret == cluster.join_secret and coordinator.admin_token
    for name in ("north", "south"):
        broker = configured_service(name)
        assert (broker.name, broker.cluster, broker.coordinator) == (name, at_cluster, at_coordinator)
        assert broker.inside_url == f"https://{name}:{broker.inside_port}"
        assert broker.join_secret == coordinator.join_secret and broker.inside_host == "0.0.0.0"
        outside, inside = COMPOSE["services"][name]["ports"][0].split(":")
        assert (int(inside), urlsplit(broker.public_url).port) == (broker.port, int(outside))


@pytest.mark.parametrize("name", PARTS)
def test_each_service_has_a_health_check_and_a_volume(name: str):
    service, found = COMPOSE["services"][name], configured_service(name)
    assert service["image"] == f"tocsin:{__version__}"
    assert f"https://127.0.0.1:{found.port}/healthz" in service["healthcheck"]["test"][-1]
    compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")
    volume, folder = service["volumes"][0].split(":")
    assert volume in COMPOSE["volumes"] and found.home.startswith(folder + "/")
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["ports"][0].endswith(f":{found.port}")


def test_the_data_cluster_is_reached_from_this_machine_only():
    assert COMPOSE["services"]["cluster"]["ports"] == ["127.0.0.1:8480:8480"]


@pytest.mark.parametrize("name", PARTS)
def test_no_service_publishes_a_port_without_tls(name: str):
    found = configured_service(name)
    assert sorted(COMPOSE["services"]) == sorted(PARTS)
    assert "./tls:/tls:ro" in COMPOSE["services"][name]["volumes"]
    files = (found.tls_certificate, found.tls_key, found.tls_ca)
    assert files == ("/tls/tocsin.crt", "/tls/tocsin.key", "/tls/ca.crt")


def test_the_script_makes_certificates_that_the_parts_accept_and_renews_them(tmp_path: Path):
    for _ in range(2):
        passes("sh", str(DEPLOY / "certificates.sh"), str(tmp_path), "north", "10.1.2.3", "::1", "tocsin.example.org")
        files = [str(tmp_path / name) for name in ("tocsin.crt", "tocsin.key", "ca.crt")]
        context = Tls(files[0], files[1], files[2]).server()
        assert context is not None
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    made = x509.load_pem_x509_certificate((tmp_path / "tocsin.crt").read_bytes())
    made.verify_directly_issued_by(authority)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "north", "tocsin.example.org"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.1.2.3", "::1"]
    assert (tmp_path / "ca.key").stat().st_mode & 0o077 == 0


# -- systemd -----------------------------------------------------------------------------------------------------------


def directives(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / unit).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, sign, value = line.partition("=")
            assert sign, line
            found.setdefault(name, []).append(value)
    return found


def instantiated(text: str) -> str:
    return text.replace("%i", "north").replace("%S", "/var/lib").replace("%C", "/var/cache")


def unit_settings(unit: str) -> Any:
    (line,), (file,) = directives(unit)["ExecStart"], directives(unit)["EnvironmentFile"]
    program, *words = instantiated(line).split()
    assert program == "/opt/tocsin/bin/tocsin"
    name = Path(instantiated(file.removeprefix("-"))).name
    env = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd" / name).read_text(), re.MULTILINE))
    return configured(words, env)


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_runs_a_part_in_its_own_folder(unit: str):
    found, lines = unit_settings(unit), directives(unit)
    (state,), (working) = map(instantiated, lines["StateDirectory"]), instantiated(lines["WorkingDirectory"][0])
    assert found.home == working == f"/var/lib/{state}"
    assert lines["KillMode"] == ["mixed"], "each part stops its own child processes"
    assert lines["User"] == ["tocsin"] and lines["WantedBy"] == lines["PartOf"] == ["tocsin.target"]


def test_the_units_find_each_other():
    cluster, coordinator, broker = (
        unit_settings(f"tocsin-{part}.service") for part in ("cluster", "coordinator", "broker@")
    )
    assert broker.cluster == coordinator.cluster == f"https://127.0.0.1:{cluster.port}"
    assert broker.coordinator == f"https://127.0.0.1:{coordinator.port}"
    assert broker.join_secret == coordinator.join_secret == cluster.join_secret
    assert broker.tls_certificate == coordinator.tls_certificate == cluster.tls_certificate != ""
    assert broker.name == "north" and urlsplit(broker.public_url).port == broker.port


def test_the_documented_commands_generate_secrets(tmp_path: Path):
    for name in ("cluster.env", "coordinator.env", "broker-north.env"):
        shutil.copy(DEPLOY / "systemd" / name, tmp_path)
    lines = re.findall(r"^sed -i .+$", (ROOT / "docs" / "how-to" / "deploy.md").read_text(), re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        passes("sh", "-ec", line.replace("/etc/tocsin", str(tmp_path)))
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    made = re.findall(r"^\w+_(?:SECRET|ADMIN_TOKEN)=([0-9a-f]{64})$", text, re.MULTILINE)
    assert len(made) == 4 and len(set(made)) == 2 and "change-me" not in text


def test_all_units_have_the_same_hardening():
    def hardening(unit: str) -> str:
        text = (DEPLOY / "systemd" / unit).read_text()
        return text[text.index("UMask=") : text.index("[Install]")]

    assert len(UNITS) == 3 and len({hardening(unit) for unit in UNITS}) == 1
    # Java needs memory that is writable and executable.
    assert "MemoryDenyWriteExecute" not in hardening(UNITS[0])


def installed_units(folder: Path) -> Iterator[str]:
    """Writes the units with a user and a program that exist on this machine."""
    for path in (DEPLOY / "systemd").glob("tocsin*"):
        if path.suffix in (".service", ".target"):
            text = path.read_text().replace("/opt/tocsin/bin/tocsin", sys.executable)
            text = re.sub(r"^(User|Group)=tocsin$", r"\1=root", text, flags=re.MULTILINE)
            name = path.name.replace("@", "@north")
            (folder / name).write_text(text)
            yield str(folder / name)


def test_systemd_analyze_accepts_the_units(tmp_path: Path):
    """Only where systemd is installed; the tests above do not need it."""
    units = list(installed_units(tmp_path))
    assert len(units) == 4
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    passes(analyze, "verify", "--man=no", *units)
    for unit in units:
        if unit.endswith(".service"):
            passes(analyze, "security", "--offline=true", "--no-pager", "--threshold=25", unit)
