"""Reports and comparisons of runs as text."""

from typing import Any

from ddlp.core.units import duration, joules, per_second, size


def report_lines(report: dict[str, Any]) -> list[str]:
    """Where every second and every joule of a run went."""
    whole = report["whole"]
    lasted = "-" if whole["seconds"] is None else duration(whole["seconds"])
    lines = [
        f"{report['run']} ({_state(report)}): {whole['delivered']:,} images in {lasted}",
        f"throughput  {_rate(whole)}",
        "",
        "the trainer's time",
        *(
            f"  {what:<12} {100 * share:6.1f} %  {whole['stall']['spent_s'][what]:9.2f} s"
            for what, share in whole["stall"]["shares"].items()
        ),
        f"  {whole['stall']['sentence']}",
        "",
        "devices",
    ]
    for device in whole["devices"]:
        lines += _device(device)
    return [*lines, "", *_costs(whole), *_epochs(report["epochs"])]


def _state(report: dict[str, Any]) -> str:
    left = report["samples_left"]
    return f"{report['state']}, {left:,} samples left" if left else str(report["state"])


def _rate(part: dict[str, Any]) -> str:
    """The throughput, with the time over which it was measured."""
    if part["images_per_s"] is None:
        return "– images/s (not measured)"
    measured = part["measured_s"]
    shown = duration(measured) if measured >= 60 else f"{measured:.3g} s"
    return f"{per_second(part['images_per_s'])} images/s over {shown}"


def _device(device: dict[str, Any]) -> list[str]:
    mark = " (emulated)" if device["emulated"] else ""
    lines = [f"  {device['source']}: {device['device']}{mark}"]
    if device["images"]:
        stages = ", ".join(f"{name} {s:.2f} s" for name, s in device["stages_s"].items())
        peak = size(device["peak_bytes"])
        lines.append(f"    {device['images']:,} images, {stages}; peak memory {peak}")
    for energy in device["energy"]:
        amount = f"{joules(energy['joules'])} ({energy['provenance']}: {energy['method']})"
        each = "" if energy["per_image"] is None else f", {joules(energy['per_image'])} an image"
        lines.append(f"    {amount}{each}")
        if energy["by_stage"]:
            parts = (f"{stage} {joules(part)}" for stage, part in energy["by_stage"].items())
            lines.append(f"    of it {', '.join(parts)}")
    return lines


def _costs(whole: dict[str, Any]) -> list[str]:
    cpu_s, memory = whole["cpu_s_per_1000_images"], whole["memory_byte_s_per_1000_images"]
    return [
        f"joules an image      {joules(whole['joules_per_image'])} "
        f"({' + '.join(whole['provenance'])}; without idle)",
        f"idle, apart          {joules(whole['idle_joules'])}",
        f"per 1,000 images     {'-' if cpu_s is None else f'{cpu_s:.3f}'} CPU seconds, "
        f"{'-' if memory is None else size(memory)} × s of memory",
    ]


def _epochs(epochs: list[dict[str, Any]]) -> list[str]:
    lines = ["", "epochs"] if epochs else []
    for epoch in epochs:
        each = joules(epoch["joules_per_image"])
        limited = epoch["stall"]["limited_by"] or "-"
        lines.append(f"  {epoch['epoch']}: {_rate(epoch)}, {each} an image, limited by {limited}")
    return lines


def comparison_lines(found: dict[str, Any]) -> list[str]:
    """Groups of equal runs side by side, the first as the base."""
    groups = found["groups"]
    lines = [f"{_letter(n)}: {', '.join(group['runs'])}" for n, group in enumerate(groups)]
    if found["differences"]:
        lines += ["", "what was different"]
        for entry in found["differences"]:
            values = ", ".join(f"{_letter(n)}: {value}" for n, value in enumerate(entry["values"]))
            lines.append(f"  {entry['condition']}: {values}")
    lines += ["", "what it changed"]
    for name in groups[0]["figures"]:
        cells = [_cell(group["figures"][name], base=n == 0) for n, group in enumerate(groups)]
        lines.append(f"  {name:<30} " + " | ".join(cells))
    return lines


def _cell(figure: dict[str, Any], base: bool) -> str:
    if figure["mean"] is None:
        return "-"
    half = figure["half_interval"]
    text = f"{figure['mean']:.4g}" + ("" if half is None else f" ± {half:.2g}")
    if base or figure["change"] is None:
        return text
    interval = ""
    if figure["change_low"] is not None:
        interval = f" [{100 * figure['change_low']:+.1f} … {100 * figure['change_high']:+.1f}]"
    mark = " *" if figure["clear"] else ""
    return f"{text} ({100 * figure['change']:+.1f} %{interval}{mark})"


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number)
