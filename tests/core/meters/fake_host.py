"""A host made of files: a powercap tree and a /proc that tests write; and a clock they move."""

from pathlib import Path

from ddlp.core.energy import EnergyReading
from ddlp.core.meters import Meter

RANGE_UJ = 262_143_328_850


class FakeClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class FakePowercap:
    """A tree as sysfs shows it, with zones side by side."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        (root / "intel-rapl").mkdir(exist_ok=True)

    def zone(self, key: str, name: str, uj: int | str = 0, range_uj: int = RANGE_UJ) -> Path:
        """Adds a zone such as intel-rapl:0:1; answers its counter."""
        folder = self.root / key
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
        (folder / "energy_uj").write_text(f"{uj}\n")
        return folder / "energy_uj"

    def unreadable_zone(self, key: str, name: str) -> Path:
        """A zone whose counter cannot be read; tests may run as root, so its mode will not do."""
        file = self.zone(key, name)
        file.unlink()
        file.mkdir()
        return file


class FakeProc:
    """A /proc with so many cores; ticks are hundredths of a second."""

    def __init__(self, root: Path, cores: int = 4) -> None:
        self.root = root
        self.cores = cores
        root.mkdir(parents=True, exist_ok=True)
        self.busy(0)
        self.used(0)

    def busy(self, ticks: int) -> None:
        """All cores together have been busy for so long; half of it in the kernel."""
        user, system = ticks - ticks // 2, ticks // 2
        total = f"cpu  {user} 0 {system} 9000 77 0 0 5 3 0\n"
        each = "".join(f"cpu{core} 1 1 1 1 1 1 1 1 1 1\n" for core in range(self.cores))
        (self.root / "stat").write_text(f"{total}{each}intr 1 2 3\nctxt 9\n")

    def used(self, kilobytes: int) -> None:
        """So much memory is not available."""
        total_kb = 64_000_000
        (self.root / "meminfo").write_text(
            f"MemTotal: {total_kb} kB\nMemFree: 1 kB\nMemAvailable: {total_kb - kilobytes} kB\n"
        )


def read_all(meters: list[Meter]) -> dict[str, EnergyReading]:
    """Every meter's reading by its name."""
    return {meter.name: meter.read() for meter in meters}
