"""The look of charts: text that is data, files that are whole and the same each time."""
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError
from factlab.reports.plots import COUNTS, count_chart
from factlab.reports.theme import drawable, packed, save_chart, subtitle_of, text_width, wrap

# --- text ---------------------------------------------------------------------------------------------------------------

@given(st.text(st.characters(exclude_categories=[]), max_size=300))
def test_drawable_text_is_well_formed_xml(text):
    from xml.sax.saxutils import escape
    shown = drawable(text)
    assert ElementTree.fromstring(f'<a>{escape(shown)}</a>') is not None and drawable(shown) == shown
    shown.encode()


@given(st.text(max_size=400), st.floats(60, 600), st.integers(1, 8))
def test_wrapping_keeps_to_the_width_and_the_lines(text, width, lines):
    wrapped = wrap(text, width, lines=lines)
    assert 1 <= len(wrapped) <= lines and all(text_width(line) <= width for line in wrapped)
    whole = ''.join(drawable(text).split())
    shown = ''.join(''.join(wrapped).split())
    assert shown == whole or shown.endswith('…')


# --- files --------------------------------------------------------------------------------------------------------------

def test_files_are_byte_identical_in_another_process(tmp_path):
    program = '''
import sys
from pathlib import Path
from factlab.reports.plots import COUNTS, count_chart
from factlab.reports.theme import save_chart
frame = COUNTS.frame([{'category': 0, 'measured': 3.0, 'published': 3.0}, {'category': 2, 'measured': 5.0}])
save_chart(count_chart(frame, 'How many?', 'errors', 'summaries'), Path(sys.argv[1]))
'''
    subprocess.run([sys.executable, '-c', program, str(tmp_path/'first')], check=True)
    frame = COUNTS.frame([{'category': 0, 'measured': 3.0, 'published': 3.0}, {'category': 2, 'measured': 5.0}])
    save_chart(count_chart(frame, 'How many?', 'errors', 'summaries'), tmp_path/'second')
    for suffix in ('.svg', '.png'): assert (tmp_path/f'first{suffix}').read_bytes() == (tmp_path/f'second{suffix}').read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['first.png', 'first.svg', 'second.png', 'second.svg']


def test_a_stem_with_dots_keeps_its_name(tmp_path):
    paths = save_chart(count_chart(COUNTS.frame([{'category': 1, 'measured': 1.0}]), 't', 'x', 'y'), tmp_path/'qwen2.5')
    assert [path.name for path in paths] == ['qwen2.5.svg', 'qwen2.5.png']


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path/'file').write_text('')
    chart = count_chart(COUNTS.frame([{'category': 1, 'measured': 1.0}]), 't', 'x', 'y')
    with pytest.raises(DataError, match='cannot write'): save_chart(chart, tmp_path/'file'/'chart')


def test_a_packed_picture_has_the_same_pixels():
    import vl_convert

    image = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30">{}<circle cx="12" cy="9" r="7" fill="#D55E00" opacity="0.5"/></svg>'
    )
    for ground in ('', '<rect width="40" height="30" fill="white"/>'):
        png = vl_convert.svg_to_png(image.format(ground), scale=2)
        assert pixels(packed(png)) == pixels(png) and packed(packed(png)) == packed(png)


def pixels(png: bytes) -> list[tuple[int, ...]]:
    "An independent, slow decoder of the two forms: RGBA values, opaque where there is no alpha."
    import struct
    import zlib
    at, data, width, depth = 8, b'', 0, 4
    while at < len(png):
        size, kind = struct.unpack('>I4s', png[at:at + 8])
        if kind == b'IHDR': width, depth = struct.unpack('>I', png[at + 8:at + 12])[0], {2: 3, 6: 4}[png[at + 17]]
        if kind == b'IDAT': data += png[at + 8:at + 8 + size]
        at += 12 + size
    raw, found, stride = zlib.decompress(data), [], width*depth + 1
    for start in range(0, len(raw), stride):
        line = bytearray(raw[start + 1:start + stride])
        assert raw[start] in (0, 1)
        if raw[start] == 1:
            for i in range(depth, len(line)): line[i] = (line[i] + line[i - depth]) % 256
        found += [tuple(line[i:i + depth]) + (255,)*(4 - depth) for i in range(0, len(line), depth)]
    return found


@settings(max_examples=25)
@given(st.lists(st.one_of(st.none(), st.integers(0, 10**7)), max_size=5))
def test_subtitles_say_n_once_or_as_a_range(sizes):
    lines = subtitle_of(sizes, 'rows')
    known = {size for size in sizes if size is not None}
    assert len(lines) == bool(known) and ('–' in ''.join(lines)) == (len(known) > 1)
