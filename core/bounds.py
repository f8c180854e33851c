"""Which numbers a model takes: nothing beyond 64 bits, and nothing that is no number."""

from typing import Any, ClassVar

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

BEYOND = 2**63
"""The first whole number that a database does not keep."""

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
    if node.get("type") == "function-before" and node["function"]["function"] is _whole:
        return
    _limit(node, strict)
    if node.get("type") == "int" and strict:
        inner = dict(node)
        node.clear()
        node.update(core_schema.no_info_before_validator_function(_whole, inner))
        return
    for name, part in node.items():
        if name not in _NO_SCHEMA:
            _visit(part, handler, strict, seen)


def _whole(value: object) -> object:
    """JSON knows one kind of number: 8.0 is 8."""
    return int(value) if type(value) is float and value.is_integer() else value


def _limit(node: dict[str, Any], strict: bool) -> None:
    kind = node.get("type")
    if kind in ("int", "float", "bool") and strict:
        node["strict"] = True
    if kind in ("int", "float"):
        if "ge" not in node:
            node.setdefault("gt", -BEYOND)
        if "le" not in node:
            node.setdefault("lt", BEYOND)


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
