"""Every setting is described, read from its variable, and refused by name when it is wrong."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from ddlp.core.client import Client
from ddlp.core.codecs import Codec
from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings, load_settings

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"
FIELDS = list(Settings.model_fields)


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("DDLP_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_is_described_in_a_sentence(name: str) -> None:
    description = Settings.model_fields[name].description
    assert description
    assert description[0].isupper()
    assert description.endswith(".")


def test_every_setting_is_documented() -> None:
    text = DOCS.read_text()
    assert [name for name in FIELDS if f"DDLP_{name.upper()}" not in text] == []


def test_nothing_must_be_set() -> None:
    settings = load_settings()
    assert settings.server_url == "http://127.0.0.1:8000"
    assert settings.cpu_workers_used >= 1
    assert settings.roots == [Path.cwd()]


HWMON = Path("/sys/class/hwmon/hwmon0")

FROM_ENVIRONMENT: list[tuple[str, str, Any]] = [
    ("home", "/var/lib/ddlp", Path("/var/lib/ddlp")),
    ("host", "0.0.0.0", "0.0.0.0"),
    ("port", "9000", 9000),
    ("serve_hosts", "csd1,10.0.0.5", ["csd1", "10.0.0.5"]),
    ("trusted_proxies", "127.0.0.1,10.1.0.0/16", ["127.0.0.1", "10.1.0.0/16"]),
    ("max_body_bytes", "4096", 4096),
    ("max_connections", "100", 100),
    ("request_timeout_s", "5", 5.0),
    ("max_unknown_keys", "3", 3),
    ("max_report_bytes", "1048576", 1 << 20),
    ("allowed_hosts", "a.example,b.example", ["a.example", "b.example"]),
    ("unsafe_listen", "true", True),
    ("keys", "required", "required"),
    ("key", "ddlp_secret", SecretStr("ddlp_secret")),
    ("key_file", "/run/key", Path("/run/key")),
    ("url", "http://control:8000", "http://control:8000"),
    ("database_url", "postgresql://db/x", "postgresql://db/x"),
    ("redis_url", "redis://queue:6379/0", "redis://queue:6379/0"),
    ("dataset_roots", "/data:/more", [Path("/data"), Path("/more")]),
    ("dataset_roots", "s3://bucket:/data", [Path("s3:/bucket"), Path("/data")]),
    ("device_name", "csd-7", "csd-7"),
    ("engine", "reference", "reference"),
    ("cpu_workers", "12", 12),
    ("cpu_store", "/dev/shm/x", "/dev/shm/x"),
    ("csd_store", "s3://bucket/csd", "s3://bucket/csd"),
    ("store_quota_bytes", "1048576", 1 << 20),
    ("store_compression", "lz4", Codec.LZ4),
    ("serve_store", "http://csd1:8100", "http://csd1:8100"),
    ("dataset_map", "/data=/mnt/a:/b=/c", {Path("/data"): Path("/mnt/a"), Path("/b"): Path("/c")}),
    ("csd_devices", "2", 2),
    ("csd_driver", "agent", "agent"),
    ("csd_profile", "arm-quad", "arm-quad"),
    ("csd_speed", "0.5", 0.5),
    ("cpu_active_w", "11.5", 11.5),
    ("cpu_idle_w", "0.5", 0.5),
    ("dram_w_per_gb", "0.2", 0.2),
    ("powercap", "/host/powercap", Path("/host/powercap")),
    ("zeusd_socket", "/run/zeusd.sock", Path("/run/zeusd.sock")),
    ("telemetry", "false", False),
    ("keep_seconds_h", "0.5", 0.5),
    ("keep_ten_seconds_h", "24", 24.0),
    ("keep_minutes_h", "100", 100.0),
    ("keep_run_details_d", "7", 7.0),
    ("keep_audit_d", "30", 30.0),
    ("keep_answers_h", "2", 2.0),
    ("log_format", "json", "json"),
    ("csd_nvme", "/dev/nvme1", Path("/dev/nvme1")),
    ("csd_active_w", "0", 0.0),
    ("csd_power_file", "/sys/class/hwmon/hwmon0/power1_input", HWMON / "power1_input"),
    ("csd_energy_file", "/sys/class/hwmon/hwmon0/energy1_input", HWMON / "energy1_input"),
    ("cpu_window", "3", 3),
    ("cpu_store_bytes", "2097152", 1 << 21),
    ("csd_store_bytes", "1048576", 1 << 20),
    ("pack_shard_samples", "16", 16),
    ("device_timeout_s", "2.5", 2.5),
    ("failing_timeout_s", "30", 30.0),
    ("trainer_timeout_s", "5", 5.0),
    ("abandon_after_s", "3600", 3600.0),
    ("wait_timeout_s", "30", 30.0),
]


def test_every_setting_is_in_the_examples_above() -> None:
    assert {name for name, _, _ in FROM_ENVIRONMENT} == set(FIELDS)


@pytest.mark.parametrize(("name", "text", "value"), FROM_ENVIRONMENT)
def test_a_setting_is_read_from_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: Any
) -> None:
    monkeypatch.setenv(f"DDLP_{name.upper()}", text)
    assert getattr(load_settings(), name) == value


def test_an_option_of_the_command_line_wins_over_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DDLP_PORT", "9000")
    assert load_settings(port=9001).port == 9001
    assert load_settings(port=None).port == 9000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "http"),
        ("port", "65536"),
        ("port", "-1"),
        ("cpu_workers", "0"),
        ("cpu_workers", ""),
        ("csd_speed", "0"),
        ("csd_speed", "1.5"),
        ("csd_devices", "-1"),
        ("cpu_active_w", "-8"),
        ("keep_seconds_h", "0"),
        ("log_format", "xml"),
        ("cpu_window", "0"),
        ("csd_store_bytes", "4 GiB"),
        ("csd_store", "ftp://host/folder"),
        ("store_compression", "rar"),
        ("serve_store", "csd1:8100"),
        ("serve_store", "http://csd1"),
        ("serve_store", "http://0.0.0.0:9000"),
        ("serve_store", "http://169.254.1.2:9000"),
        ("serve_store", "http://csd1.:9000"),
        ("serve_store", "http://user@csd1:9000"),
        ("serve_store", "http://[00]:9000"),
        ("dataset_map", "/data"),
        ("unsafe_listen", "perhaps"),
        ("keys", "sometimes"),
        ("device_timeout_s", "0"),
        ("device_timeout_s", "inf"),
        ("trainer_timeout_s", "2.9"),
        ("wait_timeout_s", "nan"),
        ("wait_timeout_s", "inf"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(f"DDLP_{name.upper()}", text)
    with pytest.raises(InvalidInput) as caught:
        load_settings()
    message = str(caught.value)
    assert message.startswith(f"DDLP_{name.upper()}={text!r}: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("DDLP_PROT", "did you mean DDLP_PORT?"),
        ("DDLP_CSD_SPEEDS", "did you mean DDLP_CSD_SPEED?"),
        ("DDLP_XYZZY", "unset it"),
    ],
)
def test_a_misspelt_variable_is_not_ignored_in_silence(
    monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(InvalidInput) as caught:
        load_settings()
    assert str(caught.value) == f"{name} is not a setting; {hint}"


def test_variables_of_others_are_none_of_our_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDLPORT", "1")
    assert load_settings().port == 8000


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("::1", "http://[::1]:8000"),
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("control", "http://control:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
    ],
)
def test_the_address_of_the_server_can_be_used_as_it_is(host: str, url: str) -> None:
    assert Client(load_settings(host=host).server_url).url == url


def test_an_empty_list_is_no_list() -> None:
    assert load_settings(allowed_hosts="").allowed_hosts == []
    assert load_settings(dataset_roots="").roots == [Path.cwd()]


def test_the_whole_filesystem_is_not_allowed_by_starting_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("/")
    assert load_settings().roots == []
    assert load_settings(dataset_roots="/srv").roots == [Path("/srv")]


def test_settings_do_not_change_once_they_are_built() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().port = 1


def test_places_are_absolute_so_that_a_child_in_another_folder_finds_them(tmp_path: Path) -> None:
    settings = load_settings(home=Path("here"), cpu_store="shm", csd_store=None)
    assert settings.cpu_store_address.folder == tmp_path / "shm"
    assert settings.csd_store_address.folder == tmp_path / "here" / "csd"
    assert settings.database == f"sqlite:///{tmp_path}/here/ddlp.db"


def test_a_key_is_passed_on_and_never_printed() -> None:
    settings = load_settings(key="ddlp_secret")
    assert settings.as_environment()["DDLP_KEY"] == "ddlp_secret"
    assert "ddlp_secret" not in repr(settings)
    assert "ddlp_secret" not in str(settings)
    assert "DDLP_KEY" not in load_settings().as_environment()


def test_two_homes_never_share_a_cpu_store() -> None:
    first, second = (load_settings(home=Path(name)).cpu_store_address for name in ("a", "b"))
    assert first != second
    assert first == load_settings(home=Path("a")).cpu_store_address


def test_dataset_roots_are_resolved_through_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert load_settings(dataset_roots=f"{tmp_path}/link").roots == [tmp_path / "real"]


@pytest.mark.parametrize("named", ["*", "localhost", "10.0.0.0/33", "10.0.0.1/8"])
def test_a_proxy_is_named_by_its_address(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("DDLP_TRUSTED_PROXIES", f"127.0.0.1,{named}")
    with pytest.raises(InvalidInput, match=r"DDLP_TRUSTED_PROXIES.*is no IP address or network"):
        load_settings()
