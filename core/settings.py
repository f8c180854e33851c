"""All settings in one typed object; each is read from the environment variable DDLP_<NAME>."""

import difflib
import hashlib
import os
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ddlp.core.codecs import Codec
from ddlp.core.errors import InvalidInput
from ddlp.core.owned_folder import shared_memory
from ddlp.core.store import StoreAddress, StoreOptions
from ddlp.core.urls import check_served

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Settings(BaseSettings):
    """Built once at a process's entry point and passed on from there."""

    model_config = SettingsConfigDict(env_prefix="DDLP_", extra="ignore", frozen=True)

    home: Path = Field(
        Path(".ddlp"), description="Folder for the database, indexes, logs and sockets."
    )
    host: str = Field("127.0.0.1", description="Address the server listens on.")
    port: int = Field(
        8000, ge=0, le=65535, description="Port the server listens on; 0 takes a free one."
    )
    serve_hosts: Annotated[list[str], NoDecode] = Field(
        [],
        description="Hosts, separated by commas, at which devices may serve their stores; where "
        "left out, the address from which a device registers, and the name of its host.",
    )
    max_body_bytes: int = Field(
        1 << 20,
        ge=1 << 12,
        le=1 << 30,
        description="Largest request body that the server reads; a larger one is refused with 413.",
    )
    max_connections: int = Field(
        2000,
        ge=8,
        le=1_000_000,
        description="Connections that the server holds at once; further ones are refused with 503.",
    )
    request_timeout_s: float = Field(
        20.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Seconds in which a request must arrive as a whole; a slower one is refused "
        "with 408, and its connection closed.",
    )
    max_unknown_keys: int = Field(
        20,
        ge=1,
        le=1000,
        description="Keys a minute that one address may try in vain; then it is refused with 429.",
    )
    max_report_bytes: int = Field(
        16 << 20,
        ge=1 << 16,
        le=1 << 30,
        description="Largest report of a worker, which names all bad samples of its batches.",
    )
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        [], description="Further names, separated by commas, that requests may use in Host."
    )
    trusted_proxies: Annotated[list[str], NoDecode] = Field(
        [],
        description="Addresses or networks of reverse proxies, separated by commas, whose headers "
        "X-Forwarded-For and X-Forwarded-Proto are believed; where left out, nobody's are.",
    )
    unsafe_listen: bool = Field(
        False,
        description="Listen beyond loopback although nothing asks for a key; only for a "
        "container network whose published ports stay on loopback.",
    )
    keys: Literal["off", "required"] = Field(
        "off",
        description="Whether the server asks for a key: `off` serves whoever reaches it: "
        "this machine alone, unless DDLP_UNSAFE_LISTEN is set; `required` refuses who has none.",
    )
    key: SecretStr | None = Field(
        None, description="Key that workers, loaders and commands show to the server."
    )
    key_file: Path | None = Field(
        None,
        description="File that holds that key, in place of DDLP_KEY. A server that asks for keys "
        "makes one of scope `work` there at its first start, for its workers.",
    )
    url: str | None = Field(
        None, description="Where workers, loaders and commands reach the server."
    )
    database_url: str | None = Field(
        None, description="SQLAlchemy URL; an SQLite file in the home folder where left out."
    )
    redis_url: str | None = Field(
        None, description="Broker's URL; an embedded Valkey or Redis is started where left out."
    )
    dataset_roots: Annotated[list[Path], NoDecode] = Field(
        [],
        description="Folders, separated by ':', below which datasets may be read and packed ones "
        "written; the folder the server was started in where left out, unless that is `/`. "
        "`ddlp roots add` allows more while the server runs.",
    )
    dataset_map: Annotated[dict[Path, Path], NoDecode] = Field(
        {},
        description="Folders of datasets that a worker sees elsewhere than the server does, as "
        "SERVERS=OWN, separated by ':'.",
    )
    device_name: str | None = Field(
        None,
        description="Name a worker registers under; made from its prong and host where left out.",
    )
    engine: Literal["auto", "fused", "reference"] = Field(
        "auto",
        description="What makes pixels: the fused kernel, the slower reference, or the first where "
        "it works; both make the same bytes.",
    )
    cpu_workers: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Processes of the CPU prong; the number of cores where left out.",
    )
    cpu_store: str | None = Field(
        None,
        description="Where the CPU prong's batches lie: a folder, file:///FOLDER or "
        "s3://BUCKET/PREFIX; a folder on tmpfs where left out.",
    )
    csd_store: str | None = Field(
        None,
        description="Where the CSD prong's batches lie, likewise; a folder in the home folder "
        "where left out.",
    )
    store_quota_bytes: int | None = Field(
        None,
        ge=1 << 20,
        description="Bytes that the batches of all runs may take up in a worker's store; what its "
        "filesystem has room for where left out.",
    )
    store_compression: Codec = Field(
        Codec.OFF,
        description="Compress what a worker stores with zlib or lz4, for slow ways to the trainer.",
    )
    serve_store: str | None = Field(
        None,
        description="Address, as http://HOST:PORT, at which a worker serves its store to trainers "
        "on hosts that do not see its folder; port 0 takes a free one.",
    )
    csd_devices: int = Field(
        0,
        ge=0,
        le=64,
        description="CSDs that `ddlp up` starts. Emulated ones write decoded batches to the CSD "
        "prong's store, by default in the home folder.",
    )
    csd_driver: str = Field(
        "emulated",
        description="How a worker of the CSD prong meets its device: `emulated` here, `agent` on "
        "the device's own Linux, or one that a package adds.",
    )
    csd_profile: str = Field(
        "default",
        description="What an emulated CSD is like: a profile's name (`ddlp csd profiles`), or the "
        "path of a TOML file.",
    )
    csd_speed: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Speed of an emulated CSD's core relative to one host core; its profile's "
        "where left out.",
    )
    cpu_active_w: float = Field(
        8.0,
        ge=0,
        allow_inf_nan=False,
        description="Watts that one busy host core is declared to add (a server core "
        "at about 250 W for 32 cores).",
    )
    cpu_idle_w: float = Field(
        1.5,
        ge=0,
        allow_inf_nan=False,
        description="Watts that one idle host core is declared to draw (a server's idle package "
        "at about 50 W for 32 cores).",
    )
    dram_w_per_gb: float = Field(
        0.375,
        ge=0,
        allow_inf_nan=False,
        description="Watts that a gigabyte of memory is declared to draw (3 W for a module of "
        "8 GB).",
    )
    powercap: Path = Field(
        Path("/sys/class/powercap"),
        description="Where the kernel's RAPL counters are looked for; a container may have them "
        "mounted elsewhere.",
    )
    zeusd_socket: Path | None = Field(
        None,
        description="Socket of a Zeus daemon, which reads RAPL for processes that may not.",
    )
    telemetry: bool = Field(
        True,
        description="Keep account of stages, stalls and energy; off, only counts are kept.",
    )
    keep_seconds_h: float = Field(
        6.0,
        gt=0,
        allow_inf_nan=False,
        description="Hours for which figures of single seconds are kept.",
    )
    keep_ten_seconds_h: float = Field(
        72.0,
        gt=0,
        allow_inf_nan=False,
        description="Hours for which figures of ten seconds are kept.",
    )
    keep_minutes_h: float = Field(
        8760.0,
        gt=0,
        allow_inf_nan=False,
        description="Hours for which figures of minutes are kept; totals stay with their run.",
    )
    keep_run_details_d: float = Field(
        90.0,
        gt=0,
        allow_inf_nan=False,
        description="Days after the end of a run for which its batches and its timeline are kept; "
        "certificates, bad samples and totals stay with it.",
    )
    keep_audit_d: float = Field(
        365.0, gt=0, allow_inf_nan=False, description="Days for which the audit is kept."
    )
    keep_answers_h: float = Field(
        24.0,
        gt=0,
        allow_inf_nan=False,
        description="Hours for which a request that is repeated with its Idempotency-Key gets the "
        "answer of the first.",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="How processes log: lines for people, or one JSON object a line."
    )
    csd_nvme: Path | None = Field(
        None,
        description="Controller of a real CSD, such as /dev/nvme0, whose table of power states "
        "says what it draws.",
    )
    csd_active_w: float | None = Field(
        None,
        ge=0,
        le=10_000,
        allow_inf_nan=False,
        description="Watts that a busy CSD is declared to draw; where left out its profile's, and "
        "unknown for a real one.",
    )
    csd_power_file: Path | None = Field(
        None,
        description="File in which a real CSD says its microwatts, as hwmon's power1_input does.",
    )
    csd_energy_file: Path | None = Field(
        None,
        description="File in which a real CSD counts microjoules, as hwmon's energy1_input and "
        "powercap's energy_uj do.",
    )
    cpu_window: int = Field(
        128, ge=1, le=100_000, description="Batches of the CPU prong that may lie unconsumed."
    )
    cpu_store_bytes: int = Field(
        1 << 30, ge=1 << 20, description="Bytes of the CPU prong that may lie unconsumed, a run."
    )
    csd_store_bytes: int = Field(
        4 << 30, ge=1 << 20, description="Bytes of the CSD prong that may lie unconsumed, a run."
    )
    pack_shard_samples: int = Field(
        1024,
        ge=1,
        le=1_000_000,
        description="Samples in a shard of a packed dataset: what one worker packs at a time.",
    )
    device_timeout_s: float = Field(
        6.0,
        gt=0,
        allow_inf_nan=False,
        description="A device that is silent for longer counts as dead.",
    )
    failing_timeout_s: float = Field(
        60.0,
        ge=1,
        allow_inf_nan=False,
        description="How long a batch may fail on every device that tries it before its run has "
        "failed; meanwhile the devices rest, longer each time, and try again.",
    )
    trainer_timeout_s: float = Field(
        15.0,
        ge=3,
        allow_inf_nan=False,
        description="A trainer that is silent for longer counts as gone: its rank is free, and the "
        "run is paused once all its trainers are gone.",
    )
    abandon_after_s: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Fail a run that its trainers left so long ago, or that none came to; by "
        "default it waits.",
    )
    wait_timeout_s: float = Field(
        120.0,
        gt=0,
        allow_inf_nan=False,
        description="How long a loader waits for one batch before it gives up.",
    )

    @field_validator("cpu_store", "csd_store")
    @classmethod
    def _check_store(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                StoreAddress.given(value)
        except InvalidInput as error:
            raise ValueError(error) from error
        return value

    @field_validator("serve_store")
    @classmethod
    def _check_serve(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "http://host:1")
        if parts.scheme != "http" or not parts.hostname or parts.port is None or parts.path:
            raise ValueError("write http://HOST:PORT")
        return value and check_served(value)

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, value: list[str]) -> list[str]:
        for part in value:
            try:
                ip_network(part)
            except ValueError as error:
                raise ValueError(f"{part!r} is no IP address or network") from error
        return value

    @field_validator("allowed_hosts", "serve_hosts", "trusted_proxies", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        return [part for part in value.split(",") if part] if isinstance(value, str) else value

    @field_validator("dataset_roots", mode="before")
    @classmethod
    def _split_colons(cls, value: object) -> object:
        # An address is kept whole, so that it can be refused by its name.
        parts = re.split(r":(?!//)", value) if isinstance(value, str) else None
        return value if parts is None else [part for part in parts if part]

    @field_validator("dataset_map", mode="before")
    @classmethod
    def _split_map(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.split("=") for part in value.split(":") if part]
        if not all(len(pair) == 2 and all(pair) for pair in pairs):
            raise ValueError("write SERVERS=OWN, separated by ':'")
        return dict(pairs)

    def as_environment(self) -> dict[str, str]:
        """The variables that make another process read these settings."""
        marks = {
            "allowed_hosts": ",",
            "serve_hosts": ",",
            "trusted_proxies": ",",
            "dataset_roots": ":",
            "dataset_map": ":",
        }
        values = {name: getattr(self, name) for name in type(self).model_fields}
        values["dataset_map"] = [f"{theirs}={ours}" for theirs, ours in self.dataset_map.items()]
        values["key"] = self.key and self.key.get_secret_value()
        return {
            f"DDLP_{name.upper()}": marks[name].join(map(str, value))
            if name in marks
            else str(value)
            for name, value in values.items()
            if value is not None
        }

    @property
    def server_url(self) -> str:
        """Where the server is reached."""
        # Who listens everywhere is reached on loopback too.
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        host = f"[{reached}]" if ":" in reached else reached
        return self.url or f"http://{host}:{self.port}"

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.home.absolute() / 'ddlp.db'}"

    @property
    def cpu_workers_used(self) -> int:
        """Processes of the CPU prong."""
        return self.cpu_workers or os.cpu_count() or 1

    @property
    def cpu_store_address(self) -> StoreAddress:
        """The CPU prong's store: one a home folder, so that two servers never mix."""
        if self.cpu_store:
            return StoreAddress.given(self.cpu_store)
        home = hashlib.sha256(str(self.home.absolute()).encode()).hexdigest()[:12]
        return StoreAddress.given(shared_memory() / f"ddlp-{os.getuid()}-{home}")

    @property
    def csd_store_address(self) -> StoreAddress:
        """The CSD prong's store."""
        return StoreAddress.given(self.csd_store or self.home / "csd")

    @property
    def store_options(self) -> StoreOptions:
        """How a worker uses its store."""
        return StoreOptions(self.store_quota_bytes, self.store_compression)

    @property
    def roots(self) -> list[Path]:
        """Folders below which datasets may be read; more may have been added since."""
        here = Path.cwd()
        usual = [] if here == Path(here.anchor) else [here]
        return [root.resolve() for root in self.dataset_roots or usual]


def load_settings(**overrides: object) -> Settings:
    """The settings of this process; a wrong value is reported by its variable's name."""
    _check_names()
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = f"DDLP_{str(first['loc'][0]).upper()}"
        raise InvalidInput(f"{name}={first['input']!r}: {first['msg']}") from error


def _check_names() -> None:
    """A misspelt variable would be ignored in silence."""
    known = [name.upper() for name in Settings.model_fields]
    for variable in os.environ:
        name = variable.removeprefix("DDLP_")
        if name != variable and name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean DDLP_{close[0]}?" if close else "; unset it"
            raise InvalidInput(f"{variable} is not a setting{hint}")
