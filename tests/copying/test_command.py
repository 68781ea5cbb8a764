"""The command line: what it writes, what it leaves alone, and how it says no."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnref.book import page_address
from attnref.copying import assembly, command
from attnref.copying.assembly import assemble
from attnref.copying.catalogue import catalogue, find, package
from attnref.copying.header import header

ENTRIES = catalogue(package())


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own; what can be copied is read once for all."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "catalogue", lambda package: ENTRIES)
    return tmp_path


@pytest.fixture(scope="module")
def stable():
    entry = find("stable", ENTRIES)
    return assemble(entry.definition, header(entry))


def test_it_writes_a_file_of_that_name(attnref, here, stable):
    assert attnref("copy", "stable") == (0, "stable.py: attnref.softmax.stable\n", "")
    assert (here / "stable.py").read_text(encoding="utf-8") == stable
    assert os.listdir(here) == ["stable.py"]


def test_it_writes_where_it_is_told(attnref, here, stable):
    (here / "folder").mkdir()
    place = Path("folder") / "any.py"
    status, out, err = attnref("copy", "softmax.stable", str(place))
    assert (status, out, err) == (0, f"{place}: attnref.softmax.stable\n", "")
    assert place.read_text(encoding="utf-8") == stable


def test_it_prints(attnref, here, stable):
    assert attnref("copy", "stable", "-") == (0, stable, "")
    assert os.listdir(here) == []


def test_a_file_that_exists_stays(attnref, here):
    (here / "stable.py").write_text("mine")
    status, out, err = attnref("copy", "stable")
    assert (status, out) == (2, "")
    assert err == (
        "attnref copy: FILE: expected a name that is free, got stable.py, which exists. Choose "
        "another, or replace it with --force.\n"
    )
    assert (here / "stable.py").read_text() == "mine"
    assert os.listdir(here) == ["stable.py"]


def test_unless_it_is_to_be_replaced(attnref, here, stable):
    (here / "stable.py").write_text("mine")
    assert attnref("copy", "stable", "--force")[0] == 0
    assert (here / "stable.py").read_text(encoding="utf-8") == stable
    assert attnref("copy", "online", "--force")[0] == 0  # nothing there to replace
    assert sorted(os.listdir(here)) == ["online.py", "stable.py"]


def test_what_is_replaced_keeps_its_link_and_its_mode(attnref, here, stable):
    (here / "real.py").write_text("mine")
    (here / "real.py").chmod(0o640)
    (here / "stable.py").symlink_to("real.py")
    assert attnref("copy", "stable", "--force")[0] == 0
    assert (here / "stable.py").is_symlink()
    assert (here / "real.py").read_text(encoding="utf-8") == stable
    assert (here / "real.py").stat().st_mode & 0o777 == 0o640


def test_nothing_of_the_current_folder_is_run(attnref, here, stable):
    for name in ("ruff", "re", "types"):
        (here / f"{name}.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    assert attnref("copy", "stable") == (0, "stable.py: attnref.softmax.stable\n", "")
    assert (here / "stable.py").read_text(encoding="utf-8") == stable


def test_nothing_is_not_a_copy(attnref, here, monkeypatch):
    silent = SimpleNamespace(stdout="")
    monkeypatch.setattr(assembly.subprocess, "run", lambda *arguments, **options: silent)
    status, out, err = attnref("copy", "stable")
    assert (status, out, os.listdir(here)) == (2, "", [])
    assert err == (
        "attnref copy: ruff: expected the formatted copy, got nothing. Install ruff again.\n"
    )


def test_the_name_of_a_method_may_be_that_of_a_mask(attnref, here):
    status, out, err = attnref("copy", "sliding_window")
    assert (status, out, os.listdir(here)) == (2, "", [])
    assert err == (
        "attnref copy: NAME: expected one function or class, got 'sliding_window', which is the "
        "name of several. Did you mean sliding_window_attention or masks.sliding_window?\n"
    )


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_file_is_written_whole_or_not_at_all(attnref, here, monkeypatch, options):
    if options:
        (here / "stable.py").write_text("mine")
    before = os.listdir(here)

    def broken(path, text):
        with path.open("wb") as file:
            file.write(text[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    status, out, err = attnref("copy", "stable", *options)
    assert (status, out) == (2, "")
    assert err == (
        "attnref copy: FILE: expected a place to write to, got stable.py: No space left on "
        "device. Choose another.\n"
    )
    assert os.listdir(here) == before
    if options:
        assert (here / "stable.py").read_text() == "mine"


REFUSED = [
    (
        [],
        "NAME: expected the function or class to copy, got none. attnref copy --list names "
        "them all.",
    ),
    (
        ["casual"],
        "NAME: expected a function or class of the package, got 'casual'. Did you mean causal? "
        "attnref copy --list names them all.",
    ),
    (
        ["causal", "."],
        f"FILE: expected a file, got the folder .. Name the file in it: {Path('causal.py')}",
    ),
    (
        ["causal", "no/such.py"],
        f"FILE: expected a place to write to, got {Path('no/such.py')}: No such file or "
        "directory. Choose another.",
    ),
    (
        ["causal", f"{Path(__file__)}/causal.py"],
        f"FILE: expected a place to write to, got {Path(__file__, 'causal.py')}: Not a "
        "directory. Choose another.",
    ),
    (
        ["causal", "x" * 300],
        f"FILE: expected a place to write to, got {'x' * 300}: File name too long. Choose another.",
    ),
]


def test_a_wrong_wish_is_one_line_and_status_2(attnref, here):
    expected = [(2, "", f"attnref copy: {message}\n") for _, message in REFUSED]
    assert [attnref("copy", *arguments) for arguments, _ in REFUSED] == expected
    assert os.listdir(here) == []


def test_all_can_be_listed(attnref):
    status, out, err = attnref("copy", "--list")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert len(lines) == len(ENTRIES)
    assert (
        "causal                        Each query sees no key of its own future. "
        f"See {page_address('foundations/masks', 'en')}."
    ) in lines
