"""What a caller is told of an error that nobody foresaw, in a route and in the dispatcher alike."""

from ddlp.core.errors import DdlpError, InvalidInput, Unavailable
from ddlp.core.passing import is_passing, remedy
from ddlp.server.database import away, is_down, is_refusal, words_of


def told(error: Exception) -> DdlpError:
    """Any error as one of ours; what is not for others stays in the log."""
    if isinstance(error, DdlpError):
        return error
    if is_refusal(error):
        why = words_of(error)
        return InvalidInput(f"the database does not take a value of the request: {why}")
    if is_down(error):
        return away(error)
    if isinstance(error, OSError) and is_passing(error):
        return Unavailable(f"the server's system refused ({error.strerror}): {remedy(error)}")
    return DdlpError(
        f"the server met an error that it did not expect ({type(error).__name__}); its log says "
        "more"
    )
