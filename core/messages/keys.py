"""Keys, and signing in with one."""

from pydantic import Field

from ddlp.core.messages.base import Message, Name
from ddlp.core.types import Scope


class KeyCreate(Message):
    """Make a key."""

    name: Name = Field(description="Who or what will use it; stands in the audit trail.")
    scope: Scope = Field(
        Scope.READ,
        description="read sees everything but keys; work also does what workers and trainers do; "
        "admin may do everything.",
    )


class KeyMade(Message):
    """A new key."""

    name: str
    scope: Scope
    created_at: float
    key: str = Field(repr=False, description="The key itself. It is not shown again.")


class KeyInfo(Message):
    """A key, without what makes it one: only a hash of that is kept."""

    name: str
    scope: Scope
    created_at: float
    last_used_at: float | None = Field(description="To about a minute.")
    revoked_at: float | None = Field(description="Since when it is refused.")


class SignIn(Message):
    """Sign a browser in."""

    key: str = Field(min_length=1, max_length=200, repr=False, description="A key.")


class SignedIn(Message):
    """Who a browser is signed in as."""

    name: str
    scope: Scope
