"""Which errors of the operating system pass, and what is said of them."""

import errno
import os

import pytest

from ddlp.core.passing import failed_words, is_full, is_own, is_passing, is_perhaps_lost, remedy


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "own", "perhaps_lost"),
    [
        (errno.EMFILE, True, False),
        (errno.ENFILE, True, False),
        (errno.ENOMEM, True, False),
        (errno.EAGAIN, True, False),
        (errno.EIO, False, True),
        (errno.ESTALE, False, False),
        (errno.ETIMEDOUT, False, False),
        (errno.EINTR, False, False),
    ],
)
def test_errors_of_the_moment_say_nothing_of_a_file(
    number: int, own: bool, perhaps_lost: bool
) -> None:
    assert is_passing(error(number))
    assert is_own(error(number)) == own
    assert is_perhaps_lost(error(number)) == perhaps_lost
    assert not is_full(error(number))
    assert remedy(error(number))


@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.EACCES, errno.EISDIR, errno.EBADMSG, errno.EROFS, errno.EINVAL]
)
def test_what_stays_as_it_is_does_not_pass(number: int) -> None:
    assert not is_passing(error(number))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_passes_when_others_make_some_only(number: int) -> None:
    assert is_full(error(number))
    assert not is_passing(error(number))


@pytest.mark.parametrize("other", [ValueError("x"), MemoryError(), OSError("without a number")])
def test_other_exceptions_do_not_pass(other: Exception) -> None:
    assert not is_passing(other)
    assert not is_full(other)


def test_call_file_and_error_are_named() -> None:
    said = failed_words(error(errno.EMFILE), "open", "/a/file")
    assert said == "open of /a/file failed with EMFILE (Too many open files)"
