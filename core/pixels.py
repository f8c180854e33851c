"""Says what became of the pixels of a dataset that was packed."""

from ddlp.core.records import PackOptions


def in_words(options: PackOptions) -> str:
    """Whether they are the origin's, or how they were changed."""
    if not options.lossy:
        return "the origin's, bit for bit"
    side = "" if options.max_side is None else f"longest side {options.max_side}, "
    return f"lossy: {side}quality {options.new_quality}"
