"""Which numbers a model takes: nothing beyond 64 bits, and nothing that is no number."""

from typing import Any, ClassVar

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema

LEAST, MOST = -(2**63), 2**63 - 1
"""What every database keeps as a whole number."""

_NO_SCHEMA = frozenset({"metadata", "serialization", "default"})


def _visit(node: Any, handler: GetCoreSchemaHandler, strict: bool, seen: set[str]) -> None:
    if isinstance(node, list | tuple):
        for part in node:
            _visit(part, handler, strict, seen)
    if not isinstance(node, dict):
        return
    if node.get("type") == "definition-ref":
        if node["schema_ref"] not in seen:
            seen.add(node["schema_ref"])
            _visit(handler.resolve_ref_schema(node), handler, strict, seen)
        return
    _limit(node, strict)
    for name, part in node.items():
        if name not in _NO_SCHEMA:
            _visit(part, handler, strict, seen)


def _limit(node: dict[str, Any], strict: bool) -> None:
    kind = node.get("type")
    if kind in ("int", "float", "bool") and strict:
        node["strict"] = True
    if kind in ("int", "float"):
        if "gt" not in node:
            node.setdefault("ge", LEAST)
        if "lt" not in node:
            node.setdefault("le", MOST)


class Bounded(BaseModel):
    """A model whose numbers lie within 64 bits, unless they have bounds of their own.

    A text or a truth value is not taken for a number, nor the other way round.
    """

    strict_numbers: ClassVar[bool] = True
    """Whether numbers must come as such; in an address, everything is text."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """The schema with all numbers in it bounded, those of dataclasses in it included."""
        schema = handler(source)
        _visit(schema, handler, cls.strict_numbers, set())
        return schema
