"""Contact sheets: they show what a loader gives, say what was drawn, and are written whole or not at all."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from nogil_loader import cli
from nogil_loader.transforms.compose import Compose, OneOf, RandomApply
from nogil_loader.transforms.image.crop import RandomCrop
from nogil_loader.transforms.image.flip import HorizontalFlip, VerticalFlip
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.preview.author import Author
from nogil_loader.transforms.preview.captions import tell_drawn
from nogil_loader.transforms.preview.display import Curves, Picture, Scale, show, with_common_span
from nogil_loader.transforms.preview.file import save
from nogil_loader.transforms.preview.samples import Sample, samples_of
from nogil_loader.transforms.preview.sheet import Cell, Sheet
from nogil_loader.transforms.preview.text import Text
from nogil_loader.transforms.reference import run_reference
from nogil_loader.transforms.spec import Spec

# One chain for all tests that compile. Crops of 26 pixels are shown eight times as large, without interpolation.
CHAIN = Compose(
    [
        RandomCrop(26),
        HorizontalFlip(),
        RandomApply([VerticalFlip(p=1.0)]),
        Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4)),
        ToCHW(),
    ]
)
_CELL, _GAP, _MARGIN, _FACTOR = 208, 14, 24, 8


def identity(array: Any) -> Any:
    return array


#: Nothing to compile, whatever the array.
PLAIN = Compose([identity])


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(256, size=(2, 30, 34, 3), dtype=np.uint8))


def cells_of(sheet: Image.Image, column: int) -> Iterator[np.ndarray]:
    """Cut those cells of a column out of a sheet that are as high as they are wide."""
    pixels = np.asarray(sheet)
    left = _MARGIN + column * (_CELL + _GAP)
    strip = pixels[:, left : left + _CELL].astype(int)
    is_paper = (strip == 255).all(axis=(1, 2))
    edges = np.flatnonzero(np.diff(np.concatenate([[True], is_paper, [True]]).astype(int)))
    for top, bottom in edges.reshape(-1, 2):
        if bottom - top == _CELL:
            yield pixels[top:bottom, left : left + _CELL]


def test_a_sheet_shows_what_a_loader_gives_in_each_epoch(images: list[np.ndarray]) -> None:
    sheet = CHAIN.preview(images, seed=5, epoch=2, count=3)
    for column, epoch in enumerate([2, 3, 4], 1):
        cells = list(cells_of(sheet, column))
        assert len(cells) == len(images)
        for index, (image, cell) in enumerate(zip(images, cells, strict=True)):
            made = CHAIN.apply(image, seed=5, epoch=epoch, index=index)
            mean, std = np.reshape([0.4, 0.5, 0.6], (3, 1, 1)), np.reshape([0.2, 0.3, 0.4], (3, 1, 1))
            expected = np.rint((made * std + mean) * 255).astype(np.uint8).transpose(1, 2, 0)
            half = _FACTOR // 2
            np.testing.assert_array_equal(cell[half::_FACTOR, half::_FACTOR], expected)


def test_a_mapping_gives_samples_their_keys_in_the_dataset(images: list[np.ndarray]) -> None:
    by_key = np.asarray(CHAIN.preview({1: images[0]}, count=2))
    by_place = np.asarray(CHAIN.preview([images[1], images[0]], count=2))
    # The same pictures, further up.
    cells = [np.asarray(list(cells_of(Image.fromarray(sheet), 2))) for sheet in (by_key, by_place)]
    np.testing.assert_array_equal(cells[0][0], cells[1][1])


def test_samples_are_not_changed_and_may_be_read_only(images: list[np.ndarray]) -> None:
    image = images[0].copy()
    image.setflags(write=False)
    CHAIN.preview([image], count=1)
    np.testing.assert_array_equal(image, images[0])


def test_what_a_plain_function_makes_is_shown_although_nobody_knows_what_it_draws() -> None:
    image = np.random.default_rng(0).integers(256, size=(26, 26, 3), dtype=np.uint8)
    sheet = PLAIN.preview([image], count=1)
    (original,), (made,) = cells_of(sheet, 0), cells_of(sheet, 1)
    np.testing.assert_array_equal(original, made)
    assert "not known" in Author(PLAIN, 0, range(1)).subtitle()
    assert Author(CHAIN, 0, range(1)).subtitle() == "seed 0"


def test_a_failing_function_of_the_users_shows_its_own_error(images: list[np.ndarray]) -> None:
    def fail(array: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Compose([fail]).preview(images)


# What is written under the pictures

ALTERNATIVES = Compose(
    [
        RandomCrop(20),
        OneOf([HorizontalFlip(), VerticalFlip(p=1.0), [RandomApply(HorizontalFlip(), p=0.3)]]),
        Normalize(0.5, 0.5),
    ]
)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32), st.integers(-(2**63), 2**63 - 1))
def test_captions_tell_what_parameters_tells(seed: int, epoch: int, index: int) -> None:
    program = ALTERNATIVES._as_chain().program
    assert program is not None
    spec = Spec.image_of(40, 50)
    told = tell_drawn(program, program.fit(spec), seed, epoch, index)
    expected = ALTERNATIVES.parameters(seed, epoch, index, like=spec)
    assert [name for name, _ in told] == [each.transform.partition("(")[0] for each in expected]
    for (name, words), drawn in zip(told, expected, strict=True):
        if name == "OneOf":
            branches = ["HorizontalFlip", "VerticalFlip", "RandomApply"]
            assert words == branches[int(drawn.values["taken"])]
        elif name == "RandomApply":
            assert words == ("HorizontalFlip" if drawn.values["applied"] else "none")
        else:
            assert words == ", ".join(f"{key}={int(value)}" for key, value in drawn.values.items())


@given(
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=80)), max_size=4),
    st.integers(60, 300),
    st.integers(1, 6),
)
def test_text_stays_in_its_column_and_loses_no_letters(
    items: list[tuple[str, str]], width: int, most: int
) -> None:
    items = [tuple(re.sub(r"[^\x21-\x7e ]", "x", part) for part in item) for item in items]  # type: ignore[misc]
    text = Text.of(items, 12, width, 10_000)
    for line in text.lines:
        ends = [left + text.font.getlength(word) for left, word, _ in line]
        begins = [left for left, _, _ in line]
        assert all(end <= width for end in ends)
        assert all(end < begin for end, begin in zip(ends, begins[1:], strict=False))
    written = "".join(word for line in text.lines for _, word, _ in line)
    assert written == "".join("".join(item) for item in items).replace(" ", "")
    short = Text.of(items, 12, width, most)
    assert len(short.lines) == min(len(text.lines), most)
    if len(text.lines) > most:
        assert short.lines[-1][0][1] == "…"


@pytest.mark.parametrize("lines", [0, 1, 30])
def test_a_long_caption_makes_room_for_itself(lines: int) -> None:
    def rows(count: int) -> Sheet:
        cell = Cell(Picture(np.zeros((9, 9, 3), np.uint8)), [("Crop", "top=1")] * count)
        return Sheet("title", "", ["original"], [[cell], [cell]])

    grown = rows(lines).draw().height - rows(0).draw().height
    assert grown == 2 * 16 * min(lines, 16)  # beyond 16 lines an ellipsis stands for the rest


# How arrays become pictures


@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 4), st.just(3))),
    st.tuples(*[st.floats(-3, 3)] * 3),
    st.tuples(*[st.floats(0.01, 10)] * 3),
)
def test_normalize_is_undone_exactly(
    image: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    program = Compose([Normalize(mean, std), ToCHW()])._as_chain().program
    assert program is not None
    fit = program.fit(Spec.of(image))
    made = run_reference(fit, image, epoch_key=np.uint64(0), word=0)
    shown = show(made, "CHW", Scale.of(fit.nodes))
    assert isinstance(shown, Picture)
    assert shown.notes == ()
    np.testing.assert_array_equal(shown.pixels, image)


def picture(array: Any, layout: Any = "") -> Picture:
    shown = show(np.asarray(array), layout)
    assert isinstance(shown, Picture)
    return shown


GREYS = np.array([[0.0, 0.2], [0.6, 1.0]])
LEVELS = np.array([[0, 51], [153, 255]])


@pytest.mark.parametrize(
    "array",
    [
        LEVELS.astype(np.uint8),
        (LEVELS * 257).astype(np.uint16),
        GREYS,
        GREYS.astype(np.float32),
        GREYS[:, :, None],
        np.stack([GREYS] * 3, axis=2),
        np.stack([GREYS] * 3),
    ],
)
def test_intensities_are_shown_as_they_are(array: np.ndarray) -> None:
    shown = picture(array)
    np.testing.assert_array_equal(shown.pixels, np.stack([LEVELS] * 3, axis=2))
    assert shown.notes == ()


def test_bools_are_black_and_white() -> None:
    assert picture([[True, False]]).pixels[0, :, 0].tolist() == [255, 0]


def test_values_a_little_beyond_black_and_white_are_cut_off() -> None:
    shown = picture([[-0.1, 0.2, 0.6, 1.0, 0.4]])
    assert shown.pixels[0, :, 0].tolist() == [0, 51, 153, 255, 102]
    assert shown.notes == ()


@pytest.mark.parametrize(
    ("array", "note"),
    [
        (np.array([[-2.0, 0.0], [1.0, 3.0]]), "-2 to 3 shown as black to white"),
        (np.array([[0, 2], [3, 5]], np.int64), "0 to 5 shown as black to white"),
        (np.array([[0, 1600], [2400, 4000]], np.uint16), "0 to 4000 shown as black to white"),
        (np.array([[-5, 95], [145, 245]], np.int16), "-5 to 245 shown as black to white"),
    ],
)
def test_values_on_another_scale_are_stretched_and_the_caption_says_so(array: np.ndarray, note: str) -> None:
    shown = picture(array)
    assert shown.pixels[:, :, 0].tolist() == [[0, 102], [153, 255]]
    assert shown.notes == (note,)


def test_equal_values_on_another_scale_are_grey() -> None:
    assert np.unique(picture(np.full((2, 2), 7.0)).pixels).tolist() == [128]


def test_pixels_that_are_not_finite_are_magenta_and_counted() -> None:
    shown = picture([[np.nan, 0.2, np.inf]])
    assert shown.pixels[0].tolist() == [[255, 0, 255], [51, 51, 51], [255, 0, 255]]
    assert shown.notes == ("not finite: 2 (magenta)",)


@pytest.mark.parametrize(
    ("shape", "note"),
    [
        ((5, 6, 2), "channel 0 of 2"),
        ((5, 6, 4), "without channel 3"),
        ((5, 6, 7), "channels 0 to 2 of 7"),
        ((2, 5, 6, 3), "first of 2"),
    ],
)
def test_what_is_left_out_is_said(shape: tuple[int, ...], note: str) -> None:
    array = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    shown = picture(array)
    first = array[0] if len(shape) == 4 else array
    channels = first[:, :, :1] if shape[-1] == 2 else first[:, :, :3]
    np.testing.assert_array_equal(shown.pixels, np.broadcast_to(channels, (5, 6, 3)))
    assert shown.notes == (note,)


@given(
    st.sampled_from(["?", "u1", "i1", ">u2", "i4", "u8", "f2", "f4", "f8"]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    ),
    st.sampled_from(["", "HWC", "CHW"]),
    st.booleans(),
)
def test_any_real_numbers_can_be_shown(array: np.ndarray, layout: Any, normalized: bool) -> None:
    scale = Scale((0.5, 2.0, 3.0), (1.0, 0.0, -1.0)) if normalized else None
    with warnings.catch_warnings(action="error"):
        shown = show(array, layout if array.ndim == 3 else "", scale)
    if isinstance(shown, Picture):
        assert shown.pixels.dtype == np.uint8
        assert shown.pixels.shape[2] == 3
    else:
        assert np.isfinite(shown.span).all()
        assert shown.values.shape[-1] == array.shape[-1]


@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.zeros(3, complex), np.array(["a"])])
def test_what_cannot_be_shown_is_refused_with_the_samples_name(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"sample 1: .*cannot be shown"):
        PLAIN.preview([np.zeros((4, 4), np.uint8), array])


def test_signals_are_curves_on_a_common_axis() -> None:
    quiet, loud = show(np.array([0.0, 1.0, np.nan])), show(np.array([[-3.0] * 40, [2.0] * 40]))
    assert isinstance(quiet, Curves)
    assert isinstance(loud, Curves)
    assert (quiet.span, quiet.notes) == ((0.0, 1.0), ("not finite: 1 (gaps)",))
    assert [each.span for each in with_common_span([quiet, loud])] == [(-3.0, 2.0)] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize("length", [1, 2, 50, 100_000])
@pytest.mark.parametrize("values", ["sine", "constant", "nan"])
def test_curves_of_any_length_are_drawn(length: int, values: str) -> None:
    signal = {
        "sine": np.sin(np.arange(length) / 9),
        "constant": np.ones(length),
        "nan": np.full(length, np.nan),
    }
    drawn = np.asarray(PLAIN.preview([signal[values]], count=1))
    has_colour = np.ptp(drawn.astype(int), axis=2).max() > 60  # text and frames are grey
    assert has_colour == (values != "nan")


# What may be given


def test_one_array_is_one_sample_or_several_as_the_transform_takes_it(images: list[np.ndarray]) -> None:
    assert [sample.index for sample in samples_of(CHAIN, images[0])] == [0]
    several = samples_of(CHAIN, np.stack(images))
    assert [sample.index for sample in several] == [0, 1]
    np.testing.assert_array_equal(several[1].array, images[1])
    assert [sample.index for sample in samples_of(PLAIN, np.stack(images))] == [0, 1]
    assert [sample.index for sample in samples_of(CHAIN, Image.fromarray(images[0]))] == [0]
    assert samples_of(CHAIN, {"a": 1})[0] == Sample("a", 1)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        ([], ValueError, "expected 1 to 50 samples, one for each row, not none"),
        (iter(range(51)), ValueError, "not more than 50"),
        ("photo.jpg", TypeError, "expected an array or several, not str"),
        (3, TypeError, "expected an array or several, not int"),
        ([np.zeros((30, 30, 3), np.uint8), "no"], TypeError, "sample 1: transforms take arrays, not str"),
        ([np.zeros((20, 30, 3), np.uint8)], ValueError, r"sample 0: RandomCrop\("),
    ],
)
def test_f01_wrong_images_are_refused(images: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CHAIN.preview(images)


@pytest.mark.parametrize(
    "arguments", [{"seed": -1}, {"seed": 2**64}, {"epoch": -1}, {"count": 0}, {"count": 21}, {"seed": True}]
)
def test_f01_wrong_numbers_are_refused_by_name(arguments: dict[str, Any], images: list[np.ndarray]) -> None:
    (name,) = arguments
    with pytest.raises((TypeError, ValueError), match=f"{name}="):
        CHAIN.preview(images, **arguments)


# Files


def test_the_sheet_on_disk_is_the_one_returned(images: list[np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "sheet.png"
    path.write_text("an older one")
    sheet = CHAIN.preview(images, count=1, path=path)
    with Image.open(path) as stored:
        assert stored.format == "PNG"
        np.testing.assert_array_equal(np.asarray(stored), np.asarray(sheet))
    assert [each.name for each in tmp_path.iterdir()] == ["sheet.png"]


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    def drawn(array: Any) -> Any:
        raise AssertionError("drawn")

    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    for name, error, message in [
        ("sheet.jpg", ValueError, "expected a name that ends in .png"),
        ("folder.png", IsADirectoryError, "cannot be written: Is a directory"),
        ("missing/sheet.png", FileNotFoundError, "there is no such folder: .*missing"),
        ("file/sheet.png", FileNotFoundError, "there is no such folder: .*file"),
    ]:
        with pytest.raises(error, match=message):
            Compose([drawn]).preview([np.zeros((4, 4), np.uint8)], path=tmp_path / name)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the size of files")
def test_a_full_disk_leaves_the_older_sheet(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "sheet.png"
    path.write_text("an older one")
    noise = np.random.default_rng(0).integers(256, size=(300, 300, 3), dtype=np.uint8)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"the picture cannot be written: .*sheet\.png"):
            save(Image.fromarray(noise), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "an older one"
    assert [each.name for each in tmp_path.iterdir()] == ["sheet.png"]


def test_without_pillow_the_error_names_the_extra(
    images: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'pip install "nogil_loader\[preview\]"'):
        CHAIN.preview(images)
    assert cli.main(["preview", "tests.test_preview:CHAIN", "--out", str(tmp_path / "x.png")]) == 1
    assert 'pip install "nogil_loader[preview]"' in capsys.readouterr().err


# The command

NAME = f"{__name__}:CHAIN"
FLIP = ToHWC()


def make() -> Compose:
    return PLAIN


def preview(*arguments: str | Path, target: str = f"{__name__}:make") -> int:
    return cli.main(["preview", target, *map(str, arguments)])


@pytest.fixture(autouse=True)
def search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands change where modules are found, for one test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_without_images_a_painted_one_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert preview("--out", tmp_path / "a.png", "--count", "2") == 0
    with Image.open(tmp_path / "a.png") as sheet:
        assert capsys.readouterr().out == (
            f"{tmp_path / 'a.png'}: {sheet.width} x {sheet.height} pixels, samples: 1\n"
        )
        assert sheet.width == 2 * _MARGIN + 3 * _CELL + 2 * _GAP


def test_files_folders_and_arrays_are_shown(
    images: list[np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    for number in range(9):
        Image.fromarray(images[0]).save(folder / "inner" / f"{number}.png")
    (folder / "notes.txt").write_text("no image")
    Image.fromarray(images[0][:, :, 0]).save(tmp_path / "grey.png")
    Image.fromarray(images[0]).convert("P").save(tmp_path / "palette.gif")
    np.save(tmp_path / "one.npy", images[0])
    np.save(tmp_path / "many.npy", np.stack([images[0]] * 20))
    given = [folder, *(tmp_path / name for name in ("grey.png", "palette.gif", "one.npy", "many.npy"))]
    assert preview(*given, "--count", "1", "--out", tmp_path / "out.png", target=NAME) == 0
    # Four of the folder, four of the many, and one of each other: the grey one as RGB, which Normalize needs.
    assert capsys.readouterr().out.endswith("samples: 11\n")


@pytest.mark.parametrize(
    ("target", "images", "message"),
    [
        (NAME, ["missing.png"], "No such file or directory: 'missing.png'"),
        (NAME, [__file__], "cannot identify image file"),
        (NAME, [str(Path(__file__).parent / "plan")], "no images in this folder, that is .npy, .jpg"),
        (f"{__name__}:NAME", [], "expected a transform of nogil_loader.transforms"),
        (f"{__name__}:nothing", [], f"{__name__} has no 'nothing'"),
        (f"{__name__}:identity", [], "takes arguments (missing a required argument: 'array')"),
    ],
)
def test_f01_the_command_refuses_what_it_cannot_show(
    target: str, images: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preview(*images, "--out", tmp_path / "x.png", target=target) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_an_image_that_does_not_fit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (5, 5)).save(tmp_path / "small.png")
    assert preview(tmp_path / "small.png", "--out", tmp_path / "x.png", target=NAME) == 1
    assert capsys.readouterr().err.startswith("nogil-loader: small.png: RandomCrop(")
