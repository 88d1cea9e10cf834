from __future__ import annotations

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenfold.core.meter.media_headers import count_pdf_pages, read_image_size
from tests.meter.pictures import encode, make_gif, make_jpeg, make_pdf, make_png, make_webp

PICTURES = {
    "png": make_png(1_920, 1_080),
    "gif": make_gif(1_920, 1_080),
    "jpeg": make_jpeg(1_920, 1_080),
    "progressive": make_jpeg(1_920, 1_080, frame=0xC2),
    "jpeg with a large preview": make_jpeg(1_920, 1_080, before=400_001),
    "lossy webp": make_webp("VP8 ", 1_920, 1_080),
    "lossless webp": make_webp("VP8L", 1_920, 1_080),
    "extended webp": make_webp("VP8X", 1_920, 1_080),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_width_and_height_are_in_the_header(picture: bytes) -> None:
    assert read_image_size(encode(picture)) == (1_920, 1_080)
    assert read_image_size(base64.urlsafe_b64encode(picture).decode().rstrip("=")) == (1_920, 1_080)
    assert read_image_size(base64.encodebytes(picture).decode()) == (1_920, 1_080)


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_a_header_that_is_cut_short_is_unknown(picture: bytes) -> None:
    sizes = {read_image_size(encode(picture[:length])) for length in range(min(len(picture), 60))}
    assert sizes <= {None, (1_920, 1_080)}
    assert read_image_size(encode(picture[:9])) is None


@pytest.mark.parametrize(
    "picture",
    [
        make_png(0, 5),
        make_jpeg(5, 0),
        b"\xff\xd8" + b"\xff\xe0\0\0" * 100_000,
        b"\xff\xd8" + b"\xff\xe0\0\x02" * 100_000,
        b"\xff\xd8" + b"\xff" * 100_000,
        b"\xff\xd8\xff\xda\0\x08",
        b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 30,
        b"RIFF\0\0\0\0WEBPVP9 " + b"\0" * 30,
        b"<svg width='10' height='10'/>",
        b"BM" + b"\0" * 40,
    ],
)
def test_a_damaged_or_forged_header_is_unknown(picture: bytes) -> None:
    assert read_image_size(encode(picture)) is None


@given(st.text() | st.binary().map(encode) | st.sampled_from([encode(p)[:80] for p in PICTURES.values()]))
@example("A")
@example("iVBORw0KGgo" + "é" * 40)
@example("////" * 50)
def test_no_data_raises(data: str) -> None:
    size = read_image_size(data)
    assert size is None or min(size) > 0
    assert count_pdf_pages(data) >= 0


def test_pages_are_counted_from_the_bytes() -> None:
    assert count_pdf_pages(encode(make_pdf(1))) == 1
    assert count_pdf_pages(encode(make_pdf(37))) == 37
    assert count_pdf_pages(encode(make_pdf(2_000))) == 2_000  # its node is too long to find the count in


def test_a_forged_count_of_pages_is_not_believed() -> None:
    assert count_pdf_pages(encode(make_pdf(3, count=9_999_999))) == 3
    assert count_pdf_pages(encode(make_pdf(5, count=3))) == 3  # two pages are left over from an earlier save
    forged = b"%PDF-1.7\n1 0 obj\n<</Linearized 1/L 9/N 900000>>\nendobj\n" + b" " * 500
    assert count_pdf_pages(encode(forged)) == 0
    assert count_pdf_pages(encode(b"%PDF-1.7\n" + b"/Type/Pages" * 200_000)) == 0


def test_compressed_objects_hide_the_pages() -> None:
    hidden = b"9 0 obj\n<< /Type /ObjStm /N 3 >>\nstream\nx\nendstream\nendobj\n"
    assert count_pdf_pages(encode(make_pdf(1, extra=hidden))) == 0
    web = b"%PDF-1.7\n1 0 obj\n<</Linearized 1/L 900/H [ 1 2 ]/O 5/E 9/N 12/T 8>>\nendobj\n" + hidden + b" " * 900
    assert count_pdf_pages(encode(web)) == 12
