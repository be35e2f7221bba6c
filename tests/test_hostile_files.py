"""Broken and hostile files: one sentence on stderr, exit code 1, and nothing new in the cache."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from trees import write, zipped

from sala.cli import main
from sala.data import miniimagenet, tieredimagenet
from sala.data.files import Tree, decode
from sala.data.pickles import load_pickle
from sala.data.store import SPLITS
from sala.errors import SalaError

Prepare = Callable[..., str]


@pytest.fixture
def prepare(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Prepare:
    """`sala data prepare NAME --root ROOT` as a user meets it when it fails: returns the sentence."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SALA_CACHE", str(cache))
    monkeypatch.delenv("SALA_DATA", raising=False)

    def run(name: str, root: Path, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["sala", "data", "prepare", name, "--root", str(root), *options])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        lines = [line for line in printed.err.splitlines() if line.strip()]
        assert (stop.value.code, printed.out, len(lines)) == (1, "", 1), printed.err
        assert list(cache.glob("stores/*")) == []
        assert lines[0].startswith("error: ")
        return lines[0].removeprefix("error: ")

    return run


def png(level: int = 0, size: tuple[int, int] = (8, 8)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (level, level, level)).save(file, "PNG")
    return file.getvalue()


def jpeg() -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def photos() -> dict[str, bytes]:
    """Three sound classes of two images."""
    return {f"{name}/{k}.png": png(k) for name in ("cat", "dog", "owl") for k in (0, 1)}


# archives


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><html>Sign in</html>", b"\n\n <HTML><body>404</body></HTML>"])
def test_a_web_page_saved_as_zip_is_called_one(tmp_path: Path, prepare: Prepare, page: bytes) -> None:
    write(tmp_path, {"images_background.zip": page, "images_evaluation.zip": page})
    assert prepare("omniglot", tmp_path) == (
        f"{tmp_path}/images_background.zip is a web page, not a zip archive: the download went wrong; open the link in a "
        "browser and save the file again"
    )


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.99])
def test_a_truncated_archive_is_to_be_downloaded_again(tmp_path: Path, prepare: Prepare, kept: float) -> None:
    path = zipped(tmp_path / "photos.zip", photos())
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert prepare("folder", path) == f"{path} is a zip archive that is cut short or damaged; download it again"


def test_an_empty_file_is_no_archive(tmp_path: Path, prepare: Prepare) -> None:
    path = tmp_path / "photos.zip"
    path.touch()
    assert "is not a zip archive; give the official archive or the folder" in prepare("folder", path)


def test_a_damaged_member_is_named(tmp_path: Path, prepare: Prepare) -> None:
    path = zipped(tmp_path / "photos.zip", {**photos(), "cat/0.png": bytes(range(256)) * 8})
    content = bytearray(path.read_bytes())
    content[content.index(b"cat/0.png") + 20] ^= 0xFF
    path.write_bytes(content)
    sentence = prepare("folder", path)
    assert sentence.startswith(f"cat/0.png in {path} cannot be read (")
    assert sentence.endswith("); get a fresh copy of the archive")


@pytest.mark.parametrize("where", range(-120, 0, 3))
def test_a_damaged_table_of_contents_never_ends_in_a_traceback(tmp_path: Path, where: int) -> None:
    path = zipped(tmp_path / "photos.zip", photos())
    content = bytearray(path.read_bytes())
    content[where] ^= 0xFF
    path.write_bytes(content)
    with suppress(SalaError):
        assert Tree(path).files()  # the byte did not matter


@pytest.mark.parametrize(
    "name",
    [
        "../evil.png",
        "cat/../../evil.png",
        "/etc/evil.png",
        "//host/evil.png",
        "..\\evil.png",
        "C:\\evil.png",
        "C:/e.png",
    ],
)
def test_an_archive_that_points_outside_itself_is_refused(tmp_path: Path, prepare: Prepare, name: str) -> None:
    path = zipped(tmp_path / "photos.zip", {**photos(), name: png()})
    assert prepare("folder", path) == (
        f"{path} holds a member named {name!r}, which points outside the archive; do not use this file"
    )


def test_an_encrypted_archive_is_to_be_unpacked(tmp_path: Path, prepare: Prepare) -> None:
    path = zipped(tmp_path / "photos.zip", photos())
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags in both headers of each member
        at = content.find(signature)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(signature, at + 1)
    path.write_bytes(content)
    assert f"/0.png in {path} is encrypted; unpack the archive and give the folder" in prepare("folder", path)


def test_a_member_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    path = tmp_path / "photos.zip"
    zipped(path, photos())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("cat/bomb.png", "w") as member:
        for _ in range(260):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    assert (
        prepare("folder", path) == f"cat/bomb.png in {path} is larger than 256 MiB, too large for one image; remove it"
    )


def test_a_member_that_lies_about_its_size_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    path = zipped(tmp_path / "photos.zip", {**photos(), "cat/0.png": png() + bytes(1 << 20)})
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 100)  # the unpacked size, in the table of contents
    path.write_bytes(content)
    assert f"cat/0.png in {path} cannot be read (" in prepare("folder", path)


def test_a_device_is_neither_folder_nor_archive(prepare: Prepare) -> None:
    assert prepare("folder", Path(os.devnull)) == (
        f"{os.devnull} is neither a folder nor a zip archive; give one of them"
    )


def test_a_path_that_is_not_there_is_told_with_what_should_be(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("tiny-tiered", tmp_path / "x") == (
        f"{tmp_path}/x does not exist; --root wants tiny-imagenet-200.zip or the folder unpacked from it"
    )


# images


def bomb(side: int) -> bytes:
    """The few bytes of a PNG that says it is side x side pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("0.jpg", b"<html>not found</html>", "is not an image, whatever its name says; replace or remove it"),
        ("0.jpg", b"", "is not an image, whatever its name says; replace or remove it"),
        ("0.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not an image, whatever its name says"),
        ("0.jpg", jpeg()[:1500], "is not a readable image (image file is truncated"),
        ("0.png", png(7, (64, 64))[:60], "is not a readable image ("),
        ("0.png", bomb(50_000), "has 2,500,000,000 pixels, and 80 million are the limit; scale it down or remove it"),
        ("0.png", bomb(9_000), "has 9000 x 9000 pixels, and 80 million are the limit; scale it down or remove it"),
    ],
    ids=["web page", "empty", "PostScript", "truncated JPEG", "truncated PNG", "50,000 x 50,000", "9,000 x 9,000"],
)
def test_a_broken_image_is_named(tmp_path: Path, prepare: Prepare, name: str, content: bytes, sentence: str) -> None:
    write(tmp_path, {**photos(), f"owl/{name}": content})
    assert prepare("folder", tmp_path).startswith(f"{tmp_path}/owl/{name} {sentence}")


def test_no_damage_to_a_jpeg_raises_anything_but_the_sentence() -> None:
    sound, rng = jpeg(), np.random.default_rng(1)
    for _ in range(200):
        broken = bytearray(sound)
        for at in rng.integers(2, len(sound), 8):
            broken[at] = rng.integers(256)
        with suppress(SalaError):
            assert decode(bytes(broken), "here", image_size=8, mode="RGB").shape == (8, 8, 3)


def test_a_name_that_steers_the_terminal_is_printed_harmlessly(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "owl/\x1b[2J\n.png": b""})
    assert "owl/\\x1b[2J\\n.png is not an image" in prepare("folder", tmp_path)


def test_a_name_that_is_not_unicode_is_printed_all_the_same(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), os.fsdecode(b"owl/\xff.png"): b""})
    assert "owl/\\udcff.png is not an image" in prepare("folder", tmp_path)


# folders


def test_an_empty_class_folder_is_named(tmp_path: Path, prepare: Prepare) -> None:
    (write(tmp_path, photos()) / "yak").mkdir()
    assert prepare("folder", tmp_path) == (
        f"the class folder yak in {tmp_path} has no images; add some or remove the folder"
    )


def test_a_class_of_one_image_is_named(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "yak/0.png": png()})
    assert prepare("folder", tmp_path) == (
        f"class 'yak' in {tmp_path} has one image and needs two at least; add some or remove it"
    )


def test_an_empty_folder_is_told_what_it_should_hold(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("folder", tmp_path) == (f"{tmp_path} holds no images; it should be a tree of class_name/image.jpg")


def test_images_beside_the_class_folders_are_named(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "stray.png": png()})
    assert prepare("folder", tmp_path) == (
        f"{tmp_path} holds images outside class folders (stray.png); put each in class_name/"
    )


def test_two_classes_are_too_few_for_three_splits(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {name: content for name, content in photos().items() if "owl" not in name})
    assert "has 2 class folders, and train, val and test need one each at least; add classes" in prepare(
        "folder", tmp_path
    )


def test_a_folder_named_like_an_image_is_an_empty_class(tmp_path: Path, prepare: Prepare) -> None:
    (write(tmp_path, photos()) / "cat" / "2.png").mkdir()
    assert f"the class folder cat/2.png in {tmp_path} has no images" in prepare("folder", tmp_path)


@pytest.mark.parametrize("dataset", ["omniglot", "miniimagenet", "tieredimagenet", "tiny-tiered"])
def test_a_folder_with_nothing_of_a_dataset_gets_a_sentence(tmp_path: Path, prepare: Prepare, dataset: str) -> None:
    assert str(tmp_path) in prepare(dataset, tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("what", ["cat/0.png", "cat"])
def test_what_may_not_be_read_is_named(tmp_path: Path, prepare: Prepare, what: str) -> None:
    path = write(tmp_path, photos()) / what
    path.chmod(0)
    try:
        assert prepare("folder", tmp_path) == (f"{path} cannot be read (Permission denied); allow this user to read it")
    finally:
        path.chmod(0o755)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"cat,train\ndog,train\n", "does not list the class 'owl'; add a line owl,train (or val, or test)"),
        (b"cat,train\ndog\nowl,val\n", "each line is class,split with a split of train, val, test; correct 'dog'"),
        (b"cat,dev\n", "each line is class,split with a split of train, val, test; correct 'cat,dev'"),
        (b"cat,tr\0ain\n", "is not a CSV file"),
        (b"caf\xe9,train\n", "is not a CSV file in UTF-8"),
        (b"PK\x03\x04\xff\xfe\0\0", "is not a CSV file"),
    ],
)
def test_a_broken_split_list_is_explained(tmp_path: Path, prepare: Prepare, content: bytes, sentence: str) -> None:
    write(tmp_path / "photos", photos())
    (tmp_path / "list.csv").write_bytes(content)
    told = prepare("folder", tmp_path / "photos", "--split-file", str(tmp_path / "list.csv"))
    assert told.startswith(f"{tmp_path}/list.csv") and sentence in told


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: None], ids=["a folder", "missing"])
def test_a_split_list_that_is_no_file_is_named(tmp_path: Path, prepare: Prepare, make: Callable[[Path], None]) -> None:
    write(tmp_path / "photos", photos())
    make(tmp_path / "list.csv")
    told = prepare("folder", tmp_path / "photos", "--split-file", str(tmp_path / "list.csv"))
    assert told.startswith(f"{tmp_path}/list.csv cannot be read (")


def test_an_option_of_another_dataset_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("omniglot", tmp_path, "--split-seed", "3") == "omniglot has no option split_seed; leave it out"


def test_a_root_for_the_built_in_letters_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("glyphs", tmp_path) == "glyphs is built in and reads no files; leave --root out"


def test_a_dataset_that_is_none_is_answered_with_those_there_are(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("imagenet", tmp_path).startswith("there is no dataset 'imagenet'; the datasets are glyphs, omniglot")


# pickles


def pickled_call(module: str, name: str, *arguments: Any) -> bytes:
    """A call of any name by hand, whatever it is called here."""
    return f"c{module}\n{name}\n".encode() + pickle.dumps(arguments, 0)[:-1] + b"R."


HOSTILE = {
    "os.system": pickled_call("os", "system", "touch {mark}"),
    "posix.system": pickled_call("posix", "system", "touch {mark}"),
    "builtins.eval": pickled_call("builtins", "eval", "open('{mark}', 'w')"),
    "__builtin__.eval": pickled_call("__builtin__", "eval", "open('{mark}', 'w')"),
    "builtins.exec": pickled_call("builtins", "exec", "open('{mark}', 'w')"),
    "builtins.getattr": pickled_call("builtins", "getattr", "a", "upper"),
    "numpy.load": pickled_call("numpy", "load", "{mark}"),
    "numpy.fromfile": pickled_call("numpy", "fromfile", "/etc/passwd"),
    "numpy.f2py.compile": pickled_call("numpy.f2py", "compile", "x"),
    "numpy.testing._private.utils.runstring": pickled_call(
        "numpy.testing._private.utils", "runstring", "open('{mark}', 'w')", {}
    ),
    "numpy.core.multiarray.fromfile": pickled_call("numpy.core.multiarray", "fromfile", "/etc/passwd"),
    "functools.partial": pickled_call("functools", "partial"),
}


@pytest.mark.parametrize("asked", list(HOSTILE))
def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, prepare: Prepare, asked: str) -> None:
    mark = tmp_path / "ran"
    path = tmp_path / "mini-imagenet-cache-train.pkl"
    for split in SPLITS:
        content = HOSTILE[asked].replace(b"{mark}", bytes(mark))
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(content)
    assert prepare("miniimagenet", tmp_path) == (
        f"{path} is refused: it asks for {asked}, which has no place in a file of images; get the file from its official "
        "source"
    )
    assert not mark.exists()


def dotted(module: str, name: str) -> bytes:
    """Protocol 4's way to ask for an attribute of something allowed."""
    parts = b"".join(b"\x8c" + bytes([len(part)]) + part.encode() for part in (module, name))
    return b"\x80\x04" + parts + b"\x93."


def object_array_over_bytes() -> bytes:
    """np.ndarray((1,), "O", b"AAAAAAAA"): one object, at an address that the file chooses."""
    return b"cnumpy\nndarray\n((I1\ntS'O'\nS'AAAAAAAA'\ntR."


def object_array_by_state() -> bytes:
    return pickle.dumps({"image_data": np.array([1, "two"], dtype=object), "class_dict": {}}, 2)


@pytest.mark.parametrize(
    "content",
    [
        object_array_over_bytes(),
        object_array_by_state(),
        dotted("numpy", "ndarray.tofile"),
        dotted("numpy", "dtype.__class__"),
        pickled_call("numpy", "dtype", "O"),
        pickled_call("numpy", "dtype", "V8"),
        pickled_call("numpy", "dtype", "u1,O"),
        pickled_call("builtins", "range", 10**30),
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I999999999\ntcnumpy\ndtype\n"
        b"(S'u1'\ntRI00\nS'abc'\ntb.",
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'i8'\ntRS'abc'\ntR.",
        b"\x80\x02" + b"(" * 1000,
        b"\x80\x05\x8e" + struct.pack("<Q", 1 << 40),
        b"<html>not found</html>",
        b"",
        pickle.dumps(list(range(1000)))[:700],
    ],
    ids=range(15),
)
def test_a_crooked_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(content)
    with pytest.raises(SalaError, match=r"x\.pkl is (refused: it|not a readable pickle \(.*\); download it again)"):
        load_pickle(path)


def test_no_damage_to_a_pickle_raises_anything_but_the_sentence(tmp_path: Path) -> None:
    sound = pickle.dumps({"image_data": np.zeros((2, 3), np.uint8), "names": ["a", b"b", 3, 1.5, None]}, 2)
    path = tmp_path / "x.pkl"
    for at in range(len(sound)):
        for byte in (0, 0x52, 0xFF):
            path.write_bytes(sound[:at] + bytes([byte]) + sound[at + 1 :])
            with suppress(SalaError):
                load_pickle(path)


def test_a_pickle_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SalaError, match=r"cannot be read \(Is a directory\)"):
        load_pickle(tmp_path)


# miniImageNet


IMAGES = np.zeros((4, 8, 8, 3), np.uint8)


def write_caches(root: Path, train: Any) -> Path:
    for split in SPLITS:
        content = train if split == "train" else {"image_data": IMAGES, "class_dict": {split: [0, 1]}}
        (root / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(content))
    return root / "mini-imagenet-cache-train.pkl"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([1, 2], "has no 'image_data' and no 'class_dict' in it: it is not the file its name says; download it again"),
        ({"image_data": IMAGES}, "has no 'class_dict' in it"),
        ({"image_data": [[1]], "class_dict": {}}, "image_data should be one array, not list"),
        (
            {"image_data": IMAGES[0], "class_dict": {}},
            "should be bytes of shape [n, height, width, 3], not uint8 (8, 8, 3)",
        ),
        ({"image_data": IMAGES.astype(np.float32), "class_dict": {}}, "not float32 (4, 8, 8, 3)"),
        ({"image_data": IMAGES[:, :0], "class_dict": {}}, "not uint8 (4, 0, 8, 3)"),
        ({"image_data": IMAGES, "class_dict": [1]}, "class_dict should map a class to its image numbers"),
        ({"image_data": IMAGES, "class_dict": {"owl": 3}}, "class 'owl' should list whole numbers below 4"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, 4]}}, "class 'owl' should list whole numbers below 4"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, -1]}}, "class 'owl' should list whole numbers below 4"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, "1"]}}, "class 'owl' should list whole numbers below 4"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, 1.5]}}, "class 'owl' should list whole numbers below 4"),
        ({"image_data": IMAGES, "class_dict": {"owl": range(10**12)}}, "class 'owl' should list whole numbers below 4"),
        ({"image_data": IMAGES, "class_dict": {"owl": np.zeros((2, 2), int)}}, "class 'owl' should list whole numbers"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0], 3: [1, 2]}}, "class 'owl' of miniimagenet has 1 image and"),
        ({"image_data": IMAGES, "class_dict": {"owl": []}}, "class 'owl' of miniimagenet has 0 images and needs two"),
        ({"image_data": IMAGES, "class_dict": {"val": [0, 1]}}, "has the class 'val' in train and in val; few-shot"),
    ],
    ids=range(17),
)
def test_a_cache_that_is_not_what_it_should_be_is_explained(
    tmp_path: Path, prepare: Prepare, content: Any, sentence: str
) -> None:
    write_caches(tmp_path, content)
    assert sentence in prepare("miniimagenet", tmp_path)


def test_a_cache_file_that_is_missing_is_named(tmp_path: Path, prepare: Prepare) -> None:
    write_caches(tmp_path, {"image_data": IMAGES, "class_dict": {"owl": [0, 1]}}).unlink()
    assert prepare("miniimagenet", tmp_path).startswith(
        f"{tmp_path}/mini-imagenet-cache-train.pkl is missing; all three"
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (b"", "should begin with the line filename,label"),
        (b"file,class\na.png,owl\n", "should begin with the line filename,label"),
        (b"filename,label\na.png\n", "has the line 'a.png', which lacks a filename or a label; complete it"),
        (b"filename,label\n,owl\n", "has the line ',owl', which lacks a filename or a label; complete it"),
        (
            b"filename,label\n../../secret.png,owl\n",
            "names the file '../../secret.png', which is outside the image folder",
        ),
        (b"filename,label\n..\\secret.png,owl\n", "which is outside the image folder; do not use this list"),
        (b"filename,label\n/etc/secret.png,owl\n", "which is outside the image folder; do not use this list"),
        (b"filename,label\na\0.png,owl\n", "is not a CSV file"),
        (b"filename,label\n\xff.png,owl\n", "is not a CSV file in UTF-8"),
        (b"filename,label\n" + b"x" * 200_000 + b",owl\n", "is not a CSV file in UTF-8 (field larger than field limit"),
        (b"filename,label\nval.png,val\nval.png,val\n", "has the class 'val' in train and in val; few-shot splits"),
        (
            b"filename,label\nno.png,owl\nno.png,owl\n",
            "no.png cannot be read (No such file or directory); put it there",
        ),
    ],
    ids=range(12),
)
def test_a_broken_csv_list_is_explained(tmp_path: Path, prepare: Prepare, lines: bytes, sentence: str) -> None:
    write(tmp_path, {"a.png": png(), "val.png": png(), "train.csv": lines})
    for split in ("val", "test"):
        (tmp_path / f"{split}.csv").write_text(f"filename,label\nval.png,{split}\nval.png,{split}\n")
    assert sentence in prepare("miniimagenet", tmp_path)


def test_a_csv_list_that_is_missing_is_named(tmp_path: Path, prepare: Prepare) -> None:
    (tmp_path / "val.csv").write_text("filename,label\n")
    assert prepare("miniimagenet", tmp_path).startswith(
        f"{tmp_path}/train.csv is missing; the JPEG layout needs train.csv"
    )


# tieredImageNet


def write_tiered(root: Path, labels: Any = None, images: Any = None) -> None:
    for split in SPLITS:
        sound = {"label_specific": [0, 0], "label_specific_str": ["owl"]}
        for what, content in (("labels", labels or sound), ("images_png", images or [png(), png()])):
            (root / f"{split}_{what}.pkl").write_bytes(pickle.dumps(content))


@pytest.mark.parametrize(
    ("labels", "images", "sentence"),
    [
        ([0, 0], None, "has no 'label_specific' in it"),
        ({"label_specific": [0, 0, 0]}, None, "has 2 train images and 3 labels for them; download both again"),
        ({"label_specific": [0, 0], "label_specific_str": 3}, None, "label_specific_str should be a list of names"),
        ({"label_specific": [0, "x"]}, None, "label_specific should be a list of whole numbers"),
        ({"label_specific": np.zeros((2, 2), int)}, None, "label_specific should be a list of whole numbers"),
        ({"label_specific": np.zeros(2)}, None, "label_specific should be a list of whole numbers"),
        ({"label_specific": [0, 10**30]}, None, "label_specific should be a list of whole numbers"),
        ({"label_specific": [0, 1]}, None, "class '0' of tieredimagenet has 1 image and needs two at least"),
        (None, [png()] * 3, "has more train images than the 2 labels of train_labels.pkl; download both again"),
        (None, {"a": 1}, "should hold a list of encoded images, not dict; download it again"),
        (None, [png(), 3], "train_images_png.pkl is not an image, whatever its name says"),
        (None, [png(), None], "image 1 of"),
        (None, [png(), np.zeros(9)], "image 1 of"),
        (None, [png(), png(7, (64, 64))[:60]], "train_images_png.pkl is not a readable image ("),
    ],
    ids=range(14),
)
def test_a_tieredimagenet_that_does_not_fit_together_is_explained(
    tmp_path: Path, prepare: Prepare, labels: Any, images: Any, sentence: str
) -> None:
    write_tiered(tmp_path, labels, images)
    assert sentence in prepare("tieredimagenet", tmp_path)


@pytest.mark.parametrize("what", ["train_labels.pkl", "val_labels.pkl", "test_images_png.pkl"])
def test_a_file_of_tieredimagenet_that_is_missing_is_named(tmp_path: Path, prepare: Prepare, what: str) -> None:
    write_tiered(tmp_path)
    (tmp_path / what).unlink()
    assert what in prepare("tieredimagenet", tmp_path)


def npz(path: Path, **arrays: Any) -> bytes:
    np.savez_compressed(path, **arrays)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"pictures": IMAGES[:2]}, "has no array 'images' in it: it is not the file its name says; download it again"),
        ({"images": IMAGES[:2].astype(np.float32)}, "in C order, not float32 (2, 8, 8, 3); download the file again"),
        ({"images": np.array([[1, "x"]], dtype=object)}, "not object (1, 2)"),
        ({"images": IMAGES[:2, :, :, :1]}, "not uint8 (2, 8, 8, 1)"),
        ({"images": IMAGES[:2, :0]}, "not uint8 (2, 0, 8, 3)"),
        ({"images": IMAGES[:1]}, "has 1 train images and 2 labels for them; download both again"),
        ({"images": IMAGES[:3]}, "has more train images than the 2 labels of train_labels.pkl"),
    ],
    ids=range(7),
)
def test_an_npz_that_is_not_what_it_should_be_is_explained(
    tmp_path: Path, prepare: Prepare, arrays: dict[str, Any], sentence: str
) -> None:
    write_tiered(tmp_path)
    (tmp_path / "train_images_png.pkl").unlink()
    npz(tmp_path / "train_images.npz", **arrays)
    assert sentence in prepare("tieredimagenet", tmp_path)


def test_no_damage_to_an_npz_raises_anything_but_the_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    sound = npz(path, images=np.random.default_rng(0).integers(0, 255, (2, 4, 4, 3), dtype=np.uint8))
    for at in range(0, len(sound), 2):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        with suppress(SalaError):
            list(tieredimagenet.stream_npz(path, "images"))


def test_an_npz_header_that_claims_a_huge_image_is_refused(tmp_path: Path) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 100000, 100000, 3), }"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    path = zipped(tmp_path / "x.npz", {"images.npy": npy})
    with pytest.raises(SalaError, match=r"not uint8 \(1, 100000, 100000, 3\)"):
        list(tieredimagenet.stream_npz(path, "images"))


def test_sound_files_pass_the_same_way(tmp_path: Path) -> None:
    """The messages above are of the damage, not of how these tests write files."""
    write_tiered(tmp_path)
    assert len(list(tieredimagenet.read_tieredimagenet(tmp_path, 8).images)) == 6
    write_caches(tmp_path, {"image_data": IMAGES, "class_dict": {"owl": np.array([0, 1]), "yak": range(2, 4)}})
    assert len(list(miniimagenet.read_miniimagenet(tmp_path, 8).images)) == 8
