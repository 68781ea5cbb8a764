"""The builder and the server of the site, with a mkdocs that does next to nothing."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from filelock import FileLock

from book.make import serve

ROOT = Path(__file__).parent.parent.parent
# It stands in the folder where mkdocs is run, so it is run in its place.
MKDOCS = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[-1])
folder.mkdir(parents=True, exist_ok=True)
with open("log", "a") as log:
    print("begins", folder, file=log, flush=True)
    time.sleep(SECONDS)
    for name in NAMES:
        (folder / name).touch()
    print("ends", folder, file=log, flush=True)
"""
MADE = ("404.html", "llms.txt", "sitemap.xml", "sitemap.xml.gz")
# The tool, in another checkout.
BUILD = """
import pathlib, sys
sys.path.append(ROOT)
from book.make import serve
serve.ROOT = pathlib.Path.cwd()
sys.argv = ["serve.py", "build", "--folder", "site"]
serve.main()
"""


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "meu diretório"  # as people call theirs
    (folder / "docs").mkdir(parents=True)
    for name in ("choose.html", "not-found.html"):
        (folder / "docs" / name).touch()
    (folder / "hatchling.py").touch()  # there is nothing to make a wheel of
    (folder / "pyproject.toml").write_text("[project]\n", "utf-8")
    return folder


@pytest.fixture
def builds(checkout):
    """Starts builds of the checkout, each in a process group of its own."""
    running = []

    def builds(seconds):
        (checkout / "mkdocs.py").write_text(
            MKDOCS.replace("SECONDS", str(seconds)).replace("NAMES", repr(MADE)), "utf-8"
        )
        command = [sys.executable, "-c", BUILD.replace("ROOT", repr(str(ROOT)), 1)]
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield builds
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_builds_of_a_folder_wait_for_each_other(builds, checkout):
    with FileLock(checkout / "site.lock"):
        both = [builds(1), builds(1)]  # longer than one language starts before the other
        for process in both:
            assert "waiting for another build" in process.stdout.readline()
        assert not (checkout / "log").exists()
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [line.split()[0] for line in (checkout / "log").read_text("utf-8").splitlines()] == [
        *("begins", "begins", "ends", "ends"),
        *("begins", "begins", "ends", "ends"),
    ]
    assert {path.name for path in (checkout / "site").iterdir()} == {
        *("pt", "en", "index.html", "404.html", "llms.txt", "robots.txt")
    }


def test_ctrl_c_in_a_build_shows_no_tracebacks(builds, checkout):
    log = checkout / "log"
    build = builds(60)
    wait_for(lambda: log.exists() and log.read_text("utf-8").count("begins") == 2)
    os.killpg(build.pid, signal.SIGINT)
    assert build.communicate(timeout=30) == ("", "")
    assert build.returncode == 130
    assert "ends" not in log.read_text("utf-8")


def test_a_site_is_current_until_a_file_changes(checkout, monkeypatch):
    site = checkout / "site"
    for name, place in {"ROOT": checkout, "SITE": site, "BUILT": checkout / ".cache/site"}.items():
        monkeypatch.setattr(serve, name, place)

    def mkdocs(*commands):
        for *_, folder in commands:
            os.makedirs(folder)
            for name in MADE:
                Path(folder, name).touch()

    monkeypatch.setattr(serve, "mkdocs", mkdocs)
    assert not serve.is_current()
    serve.build(site)
    assert serve.is_current()
    page = checkout / "docs" / "page.md"
    page.write_text("new", encoding="utf-8")
    assert not serve.is_current()
    page.unlink()
    (checkout / ".hidden").touch()
    assert serve.is_current()
    (site / "index.html").unlink()
    assert not serve.is_current()


def test_a_visitor_who_leaves_is_no_error():
    class Gone(io.BytesIO):
        def write(self, data):
            raise BrokenPipeError

    serve.Handler.copyfile(object.__new__(serve.Handler), io.BytesIO(b"page"), Gone())


@pytest.mark.parametrize("port", [99999, 65536, 0, -1])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(SystemExit) as stopped:
        serve.check_port(port)
    assert stopped.value.code == (
        f"attnref: expected a port from 1 to 65535, got {port}: make serve PORT=8000"
    )


def test_a_port_that_is_busy_or_reserved_is_told(tmp_path, monkeypatch):
    with serve.server(tmp_path, 0) as running, pytest.raises(SystemExit, match="is busy"):
        serve.check_port(running.server_port)

    def forbidden(*address):
        raise PermissionError

    monkeypatch.setattr(serve.socket.socket, "bind", forbidden)
    with pytest.raises(SystemExit, match="port 80 is not for everybody"):
        serve.check_port(80)


def test_a_zero_in_a_name_is_found_nowhere(tmp_path, capfd):
    (tmp_path / "index.html").write_text("the page", "utf-8")
    with serve.server(tmp_path, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{running.server_port}"
        with urllib.request.urlopen(f"{address}/") as page:
            assert page.read() == b"the page"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/%00")
        refused.value.close()
        running.shutdown()
    assert refused.value.code == 404
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("place", ["", "https://example.org/book/"])
def test_programs_are_told_of_both_languages_at_the_root(tmp_path, place):
    site = tmp_path
    for language in ("pt", "en"):
        (site / language).mkdir(parents=True)
        for name in MADE:
            (site / language / name).write_text(f"{name} of {language}\n", "utf-8")
        map = f"<url><loc>{place and f'{place}{language}/'}</loc></url>"
        (site / language / "sitemap.xml").write_text(map, "utf-8")
    serve.announce(site)
    assert (site / "llms.txt").read_text("utf-8") == "llms.txt of pt\n\nllms.txt of en\n"
    robots = (site / "robots.txt").read_text("utf-8")
    maps = [
        f"Sitemap: https://example.org/book/{language}/sitemap.xml" for language in ("pt", "en")
    ]
    assert robots.split("\n") == ["User-agent: *", "Allow: /", *(maps if place else []), ""]
    assert all(
        (site / language / "sitemap.xml").exists() == bool(place) for language in ("pt", "en")
    )
