"""Shows what a pipeline makes of samples: in words, or as a sheet of pictures."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput


def preview(
    client: Client, dataset: str, question: dict[str, Any], out: Path | None
) -> list[dict[str, Any]]:
    """The samples with the parameters drawn; their pictures go to a file if one is named."""
    query = urlencode(question, safe=",")
    samples: list[dict[str, Any]] = client.get(f"/datasets/{dataset}/preview?{query}")
    if out is not None:
        sheet = client.download(f"/datasets/{dataset}/preview.png?{query}")
        try:
            out.write_bytes(sheet)
        except OSError as error:
            raise InvalidInput(f"{out} cannot be written ({error.strerror})") from error
    return samples


def lines(samples: list[dict[str, Any]]) -> list[str]:
    """The parameters drawn, one line a step, below a line a sample."""
    text = []
    for sample in samples:
        size = f"{sample['width']} × {sample['height']}"
        text.append(f"{sample['sample']}  {sample['name']}  {sample['class_name']}  {size}")
        for step in sample["steps"]:
            drawn = {name: value for name, value in step.items() if name != "transform"}
            values = "  ".join(f"{name}={_short(value)}" for name, value in drawn.items())
            text.append(f"    {step['transform']:<20} {values}".rstrip())
    return text


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
