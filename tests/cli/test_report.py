"""Reports and comparisons in words."""

from typing import Any

from ddlp.cli.report import comparison_lines, report_lines
from ddlp.core.types import Spending

ENERGY = {
    "joules": 12.0,
    "provenance": "measured",
    "method": "RAPL",
    "per_image": 0.012,
    "by_stage": {"fetch": 4.0, "decode": 8.0},
}


def part(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "images": 1000,
        "delivered": 1000,
        "seconds": 10.0,
        "measured_s": 8.0,
        "images_per_s": 100.0,
        "stall": {
            "spent_s": dict.fromkeys(Spending, 1.0),
            "shares": dict.fromkeys(Spending, 0.125),
            "limited_by": "decode",
            "sentence": "Decoding on the host limits the run.",
        },
        "devices": [
            {
                "source": "csd",
                "device": "csd0",
                "emulated": True,
                "images": 1000,
                "stages_s": {"fetch": 1.0, "decode": 2.0},
                "peak_bytes": 5_000_000,
                "energy": [ENERGY],
            }
        ],
        "cpu_s_per_1000_images": 2.5,
        "memory_byte_s_per_1000_images": 1e9,
        "joules_per_image": 0.012,
        "provenance": ["measured"],
        "idle_joules": 40.0,
    }
    return values | changes


def test_a_report_names_devices_stages_joules_and_the_limit() -> None:
    whole, left = part(), {"state": "incomplete", "samples_left": 40}
    found = {"run": "r", **left, "whole": whole, "epochs": [part(epoch=0)]}
    text = "\n".join(report_lines(found))
    for words in (
        "r (incomplete, 40 samples left): 1,000 images in 10 s",
        "throughput  100 images/s over 8 s",
        "Decoding on the host limits the run.",
        "csd: csd0 (emulated)",
        "fetch 1.00 s, decode 2.00 s; peak memory 5.0 MB",
        "12 J (measured: RAPL), 12 mJ an image",
        "of it fetch 4 J, decode 8 J",
        "12 mJ (measured; without idle)",
        "idle, apart          40 J",
        "2.500 CPU seconds, 1.0 GB × s of memory",
        "0: 100 images/s over 8 s, 12 mJ an image, limited by decode",
    ):
        assert words in text


def test_what_is_not_known_is_no_number() -> None:
    nothing = part(
        seconds=None,
        images_per_s=None,
        devices=[],
        cpu_s_per_1000_images=None,
        memory_byte_s_per_1000_images=None,
        joules_per_image=None,
        provenance=["unavailable"],
        idle_joules=None,
    )
    state = {"state": "created", "samples_left": None}
    found = {"run": "r", **state, "whole": nothing, "epochs": []}
    text = "\n".join(report_lines(found))
    assert "joules an image      — (unavailable" in text
    assert "throughput  – images/s (not measured)" in text
    assert "idle, apart          —" in text
    assert "- CPU seconds" in text


def figure(mean: float | None, **changes: Any) -> dict[str, Any]:
    none = dict.fromkeys(("half_interval", "change", "change_low", "change_high"))
    return {"n": 3, "mean": mean, "clear": False, **none} | changes


def test_a_comparison_says_what_was_different_and_what_it_changed() -> None:
    change = {"change": 0.25, "change_low": 0.2, "change_high": 0.3, "clear": True}
    found = {
        "groups": [
            {"runs": ["a1", "a2"], "figures": {"images_per_s": figure(100.0, half_interval=2.0)}},
            {"runs": ["b1"], "figures": {"images_per_s": figure(125.0, **change)}},
        ],
        "differences": [{"condition": "strategy", "values": ["mte", "wrr"]}],
    }
    lines = comparison_lines(found)
    assert lines[:2] == ["A: a1, a2", "B: b1"]
    assert "  strategy: A: mte, B: wrr" in lines
    assert lines[-1].endswith("100 ± 2 | 125 (+25.0 % [+20.0 … +30.0] *)")


def test_an_unknown_figure_is_a_dash() -> None:
    groups = [{"runs": [name], "figures": {"joules": figure(None)}} for name in "ab"]
    assert comparison_lines({"groups": groups, "differences": []})[-1].endswith("- | -")
