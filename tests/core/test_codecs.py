"""Compression: what went in comes out, and nothing in a file makes it do more than was asked."""

import os
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core import codecs
from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch, Unavailable

PACKING = [Codec.ZLIB, Codec.LZ4]


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("lz4", reason="lz4 is not installed")


@given(raw=st.binary(min_size=1, max_size=3000), codec=st.sampled_from(PACKING))
def test_what_went_in_comes_out(raw: bytes, codec: Codec) -> None:
    packed = codecs.compress(codec, memoryview(raw))
    assert codecs.decompress(codec, memoryview(packed), len(raw)) == raw


@pytest.mark.parametrize("codec", PACKING)
def test_what_repeats_becomes_smaller_but_not_beyond_belief(codec: Codec) -> None:
    for nbytes in (100, 10_000, 10 << 20):
        packed = codecs.compress(codec, memoryview(bytes(nbytes)))
        assert len(packed) < nbytes <= len(packed) * codecs.MOST_RATIO


def test_off_leaves_bytes_alone() -> None:
    assert codecs.compress(Codec.OFF, memoryview(b"abc")) == b"abc"


def test_what_is_too_large_for_a_codec_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "_LZ4_MOST_BYTES", 10)
    assert codecs.compress(Codec.LZ4, memoryview(bytes(11))) == bytes(11)
    assert codecs.compress(Codec.LZ4, memoryview(bytes(10))) != bytes(10)


def test_numbers_in_files_stay_what_they_are() -> None:
    assert [(codec, codec.number) for codec in Codec] == [
        (Codec.OFF, 0),
        (Codec.ZLIB, 1),
        (Codec.LZ4, 2),
    ]
    assert [codecs.numbered(number) for number in range(3)] == list(Codec)
    with pytest.raises(DamagedBatch, match="codec 3 is not known"):
        codecs.numbered(3)


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("packed", [b"", b"\0", b"\xff" * 40, b"noise" * 40, bytes(200)])
def test_what_is_not_compressed_is_found(codec: Codec, packed: bytes) -> None:
    with pytest.raises(DamagedBatch):
        codecs.decompress(codec, memoryview(packed), 1000)


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("said", [0, 1, 999, 1001, 1 << 20, 1 << 40])
def test_another_size_than_was_said_is_found(codec: Codec, said: int) -> None:
    packed = codecs.compress(codec, memoryview(bytes(1000)))
    with pytest.raises(DamagedBatch):
        codecs.decompress(codec, memoryview(packed), said)


def test_what_swells_is_not_let_swell() -> None:
    bomb = zlib.compress(bytes(50 << 20), 9)
    for said in (0, 100):
        with pytest.raises(DamagedBatch, match=f"{said + 1} bytes once decompressed, not {said}"):
            codecs.decompress(Codec.ZLIB, memoryview(bomb), said)


def test_a_stream_without_an_end_is_found() -> None:
    packed = zlib.compress(os.urandom(1000))
    with pytest.raises(DamagedBatch, match="it has no end"):
        codecs.decompress(Codec.ZLIB, memoryview(packed)[:-4], 1000)


def test_without_its_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.block", None)
    codecs.check(Codec.OFF)
    codecs.check(Codec.ZLIB)
    with pytest.raises(Unavailable, match=r"pip install 'ddlp\[lz4\]', or use zlib"):
        codecs.check(Codec.LZ4)
