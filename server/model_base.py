"""What all tables share. Times are seconds since 1970 (UTC)."""

import uuid
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Double, Integer, MetaData, Uuid
from sqlalchemy.orm import DeclarativeBase

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

ROW_ID = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """What the tables share: column types and names of constraints."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        float: Double,
        int: BigInteger,
        uuid.UUID: Uuid,
        dict[str, Any]: JSON,
    }
