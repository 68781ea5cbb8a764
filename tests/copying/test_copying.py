"""``attnref copy``: what it writes, what it leaves alone, and how it says no."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attnref as package
from attnref.book import page_address
from attnref.copying.catalogue import FOLDER, entries, find
from attnref.copying.whole import needed_files, path_of
from attnref.text import Refusal

NAMES = [*package.__all__, "masks.causal", "distributed.ring_attention"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copied(name):
    """The file as it is, below its origin and its licence."""
    entry = find(name)
    return (
        f"# From attnref {package.__version__}, attnref/minimal/{name}.py; see "
        f"{page_address(entry.page, 'en')}\n"
        "# SPDX-License-Identifier: MIT-0 (no notice has to be kept)\n"
        + (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    )


def test_it_writes_the_file_as_it_is(attnref, here):
    assert attnref("copy", "causal") == (0, "causal.py: attnref.minimal.causal\n", "")
    (here / "folder").mkdir()
    place = Path("folder") / "any.py"
    assert attnref("copy", "causal", str(place)) == (0, f"{place}: attnref.minimal.causal\n", "")
    assert attnref("copy", "attnref.minimal.causal", "-") == (0, copied("causal"), "")
    for path in (here / "causal.py", here / place):
        assert path.read_text(encoding="utf-8") == copied("causal")
    assert sorted(os.listdir(here)) == ["causal.py", "folder"]


def test_every_whole_function_is_there():
    for entry in entries():
        if entry.whole:
            assert path_of(entry.name) == path_of(entry.whole)
    assert [entry.name for entry in entries() if not entry.whole] == ["speculative"]


def test_all_can_be_listed(attnref):
    status, out, err = attnref("copy", "--list")
    assert (status, err) == (0, "")
    assert "\nlinformer              4  Linformer: keys" in out
    assert " ".join(out.split()).count("Left out: ") == len(entries())


def test_what_exists_stays_unless_it_is_to_be_replaced(attnref, here):
    (here / "real.py").write_text("mine")
    (here / "real.py").chmod(0o640)
    (here / "causal.py").symlink_to("real.py")
    message = (
        "attnref copy: FILE: causal.py already exists. Choose another name, "
        "or replace it with --force.\n"
    )
    assert attnref("copy", "causal") == (2, "", message)
    assert (here / "real.py").read_text() == "mine"
    assert attnref("copy", "causal", "--force")[0] == 0
    assert (here / "causal.py").is_symlink()
    assert (here / "real.py").read_text(encoding="utf-8") == copied("causal")
    assert (here / "real.py").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(here)) == ["causal.py", "real.py"]


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_file_is_written_whole_or_not_at_all(attnref, here, monkeypatch, options):
    if options:
        (here / "causal.py").write_text("mine")
    before = os.listdir(here)

    def broken(path, text):
        with path.open("wb") as file:
            file.write(text[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    message = (
        "attnref copy: FILE: cannot write to causal.py: No space left on device. "
        "Choose another place.\n"
    )
    assert attnref("copy", "causal", *options) == (2, "", message)
    assert os.listdir(here) == before


def test_somebody_who_was_faster_keeps_the_name(attnref, here, monkeypatch):
    def late(path, place):
        Path(place).write_text("theirs")
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", late)
    assert attnref("copy", "causal")[0] == 2
    assert (here / "causal.py").read_text() == "theirs"
    assert os.listdir(here) == ["causal.py"]


REFUSED = {
    (): "NAME: the method to copy is missing. attnref copy --list names them all.",
    ("casual",): "NAME: there is no method on one screen called 'casual'. Did you mean causal? "
    "attnref copy --list names them all; what has every option comes with --whole.",
    ("x",): "NAME: there is no method on one screen called 'x'. Did you mean",
    ("causal", "."): f"FILE: . is a folder. Name the file in it: {Path('causal.py')}",
    ("causal", "no/such.py"): f"FILE: cannot write to {Path('no/such.py')}: No "
    "such file or directory. Choose another place.",
    ("causal", "x" * 300): f"FILE: cannot write to {'x' * 300}: File name too "
    "long. Choose another place.",
    ("--whole", "masks.casual", "vendor"): "NAME: the package has no function or class called "
    "'masks.casual'. ",
    ("--whole", "nothing_like", "vendor"): "NAME: the package has no function or class called "
    "'nothing_like'. dir(attnref) names them all.",
    ("--whole", "oracle"): "DIR: the folder for the modules of oracle is missing. For "
    "example: attnref copy --whole oracle vendor",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_a_wrong_wish_is_one_line_and_status_2(attnref, here, arguments):
    status, out, err = attnref("copy", *arguments)
    assert (status, out, os.listdir(here)) == (2, "", [])
    assert err.startswith(f"attnref copy: {REFUSED[arguments]}")
    assert err.count("\n") == 1


PORTUGUESE = {
    ("casual",): "NAME: nenhum método numa tela se chama 'casual'. Seria causal? attnref copy "
    "--list mostra todos; o que tem todas as opções vem com --whole.",
    ("causal", "."): f"FILE: . é uma pasta. Indique o arquivo nela: {Path('causal.py')}",
    ("causal", "no/such.py"): f"FILE: não foi possível escrever em {Path('no/such.py')}: No such "
    "file or directory. Escolha outro lugar.",
    ("--whole", "oracle"): "DIR: falta a pasta para os módulos de oracle. Por exemplo: attnref "
    "copy --whole oracle vendor",
    ("--whole", "oracle", "-"): "DIR: - não é uma pasta. Por exemplo: attnref copy --whole oracle "
    "vendor",
}


def test_it_says_what_is_wrong_and_what_to_do_in_portuguese(attnref, here, monkeypatch):
    monkeypatch.setenv("LC_ALL", "pt_BR.UTF-8")
    expected = [(2, "", f"attnref copy: {message}\n") for message in PORTUGUESE.values()]
    assert [attnref("copy", *arguments) for arguments in PORTUGUESE] == expected
    assert os.listdir(here) == []


def test_the_whole_function_comes_with_its_modules_as_they_are(attnref, here):
    status, out, err = attnref("copy", "--whole", "blockwise", "vendor")
    assert (status, err) == (0, "")
    assert out.endswith(
        "PYTHONPATH=vendor, then from attnref.variants.blockwise import blockwise_attention\n"
    )
    root = Path(package.__file__).parents[1]
    for place in needed_files("attnref.variants.blockwise"):
        assert (here / "vendor" / place).read_bytes() == (root / place).read_bytes()
    assert "MIT License" in (here / "vendor" / "attnref" / "LICENSE").read_text(encoding="utf-8")
    assert attnref("copy", "--whole", "blockwise", "vendor")[0] == 2  # they exist
    assert attnref("copy", "--whole", "blockwise", "vendor/attnref/checks.py")[0] == 2  # a file


# In one process: each name from a folder with its modules alone.
ALONE = """
import importlib, sys, torch
torch.set_num_threads(1)
for line in sys.stdin.read().splitlines():
    folder, module, name = line.split(",")
    sys.path.insert(0, folder)
    found = importlib.import_module(module)
    assert found.__file__.startswith(folder), found.__file__
    if name:
        getattr(found, name)
    if name == "blockwise_attention":
        x = torch.ones(1, 3, 2)
        assert torch.equal(found.blockwise_attention(x, x, x), x)
    sys.path.pop(0)
    for loaded in [one for one in sys.modules if one.partition(".")[0] == "attnref"]:
        del sys.modules[loaded]
"""


def test_what_is_taken_whole_needs_nothing_else(tmp_path):
    wanted = []
    for number, (module, name) in enumerate(dict(map(path_of, NAMES)).items()):
        folder = tmp_path / str(number)
        for place, text in {"attnref/__init__.py": "", **needed_files(module)}.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8")
        wanted.append(f"{folder},{module},{name}")
    subprocess.run(
        [sys.executable, "-I", "-c", ALONE],
        input="\n".join(wanted),
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=300,
    )


def test_a_name_of_a_room_that_is_none(here):
    with pytest.raises(Refusal, match="has no function or class"):
        path_of("torch.nn")
