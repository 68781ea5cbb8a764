"""Builds the site in both languages, and serves it."""

import argparse
import contextlib
import functools
import hashlib
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

ROOT = Path(__file__).parents[2]
CONFIGURATION = {"pt": "mkdocs.yml", "en": "mkdocs.en.yml"}
SITE = ROOT / "site"
PLACE = re.compile(r"<loc>(https?://[^<]*)</loc>")  # the first is that of the front page
BUILT = ROOT / ".cache" / "site"  # the digest of what it was built from
OFFER = re.compile(r'<ul class="?books"?[^>]*>.*?</ul>', re.DOTALL)


def build(site: Path) -> None:
    """Each language into its folder of ``site``; the wheel, and what belongs to the root.

    Two builds of one folder wait for each other.
    """
    site.parent.mkdir(parents=True, exist_ok=True)
    with _lock_site(site):
        before = digest()
        if site == SITE:
            if is_current():
                print(f"attnref: nothing has changed since {site} was built.", flush=True)
                return
            BUILT.unlink(missing_ok=True)
        mkdocs(
            *(
                ("build", "--strict", "-f", configuration, "-d", str(site / language))
                for language, configuration in CONFIGURATION.items()
            )
        )
        for language in CONFIGURATION:
            (site / language / "404.html").unlink()  # it would need to know where the site stands
        wheel(site / "dist")
        offer(site)
        announce(site)
        shutil.copy(ROOT / "docs" / "choose.html", site / "index.html")
        shutil.copy(ROOT / "docs" / "not-found.html", site / "404.html")
        if site == SITE:
            BUILT.parent.mkdir(exist_ok=True)
            BUILT.write_text(before, encoding="utf-8")


class Making:
    """A site that another process builds into a folder that is still to be."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder.with_name(f"{folder.name}.log")
        command = [sys.executable, "-m", "book.make.serve", "build", "--folder", str(folder)]
        with self.log.open("wb") as said:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT
            )

    def result(self) -> tuple[Path, Path]:
        """The folder and the log, when the process has ended."""
        self.process.wait()
        return self.folder, self.log


def wheel(folder: Path) -> None:
    """The package as pip installs it, alone in its folder."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ("hatchling", "build", "--target", "wheel", "--directory", str(folder))
    subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.DEVNULL, check=True
    )


def offer(site: Path) -> None:
    """The books that there are, beside the wheel, and their links on the page of what to take."""
    for page in site.glob("*/reference/download/index.html"):
        links = ""
        books = (ROOT / "dist").glob(f"attnref-{page.parts[-4]}*")
        for path in sorted(books, key=lambda path: (path.stem, path.suffix)):  # the book is first
            shutil.copy(path, site / "dist")
            link = f'<a href="../../../dist/{path.name}" download>{path.name}</a>'
            links += f"<li>{link} ({path.stat().st_size / 1e6:.1f} MB)</li>"
        told = f'<ul class="books"{"" if links else " hidden"}>{links}</ul>'
        page.write_text(OFFER.sub(told, page.read_text(encoding="utf-8")), encoding="utf-8")


def announce(site: Path) -> None:
    """What is read at the root by those who visit with a program: of both languages, in one file.

    A map of a site wants whole addresses, so there is none while the site has no address.
    """
    told = [(site / language / "llms.txt").read_text("utf-8") for language in CONFIGURATION]
    (site / "llms.txt").write_text("\n".join(told), encoding="utf-8")
    robots = ["User-agent: *", "Allow: /"]
    for language in CONFIGURATION:
        if map := PLACE.search((site / language / "sitemap.xml").read_text("utf-8")):
            robots.append(f"Sitemap: {map[1]}sitemap.xml")
        else:
            (site / language / "sitemap.xml").unlink()
            (site / language / "sitemap.xml.gz").unlink()
    (site / "robots.txt").write_text("\n".join([*robots, ""]), encoding="utf-8")


def is_current() -> bool:
    """Whether the site that is there was built from the files as they are."""
    built = BUILT.is_file() and BUILT.read_text(encoding="utf-8") == digest()
    return built and (SITE / "index.html").is_file()


def digest() -> str:
    """Of all files of the project, their names too, and of the commit, which each page names.

    What is made from them does not count.
    """
    made = {SITE.name, f"{SITE.name}.lock", "dist", "__pycache__"}
    found = hashlib.sha256(commit_time().get("SOURCE_DATE_EPOCH", "").encode())
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(x for x in folders if x not in made and not x.startswith("."))
        for name in sorted(set(files) - made):
            if not name.startswith("."):
                path = Path(folder, name)
                found.update(f"{path.relative_to(ROOT)}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


@contextlib.contextmanager
def _lock_site(site: Path) -> Iterator[None]:
    lock = FileLock(f"{site}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        print(f"attnref: waiting for another build of {site} to end …", flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def mkdocs(*commands: Sequence[str]) -> None:
    """Runs these at the same time. Ctrl-C ends them without a word of theirs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which they inherit
    # Never with -q: it makes --strict end with status 0 in spite of warnings.
    environment = {**commit_time(), **os.environ, "NO_MKDOCS_2_WARNING": "1"}
    running = [
        subprocess.Popen([sys.executable, "-m", "mkdocs", *command], cwd=ROOT, env=environment)
        for command in commands
    ]
    signal.signal(signal.SIGINT, before)
    try:
        failed = [process.wait() for process in running]
    finally:
        for process in running:
            process.terminate()
            process.wait()
    if any(failed):
        sys.exit(f"\nattnref: mkdocs {commands[0][0]} failed; the lines above name file and line.")


def commit_time() -> dict[str, str]:
    """The time that builds of one commit have in common, in the name that tools agree on."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    with contextlib.suppress(FileNotFoundError):
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode == 0:
            return {"SOURCE_DATE_EPOCH": answer.stdout.strip()}
    return {}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line of log for each."""

    def send_head(self) -> BytesIO | BinaryIO | None:
        """Find what is asked for."""
        try:
            return super().send_head()
        except ValueError:  # of a zero in the name, which no file has
            self.send_error(http.HTTPStatus.NOT_FOUND)
            return None

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; whoever leaves meanwhile, as browsers do, is no error to tell of."""
        with contextlib.suppress(ConnectionError):
            super().copyfile(source, outputfile)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: the reader wants the address, not the requests."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Show the page for addresses that lead nowhere, as hosts do."""
        page = Path(self.directory, "404.html")
        if code == http.HTTPStatus.NOT_FOUND and page.is_file():
            self.send_response(code)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page.read_bytes())
        else:
            super().send_error(code, message, explain)


def server(site: Path, port: int) -> http.server.ThreadingHTTPServer:
    """A server of ``site`` on this machine alone; port 0 takes a free one."""
    handler = functools.partial(Handler, directory=str(site))
    http.server.ThreadingHTTPServer.allow_reuse_address = True
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)


def serve(site: Path, port: int) -> None:
    check_port(port)  # before the build: nobody wants to wait for a message
    build(site)
    with server(site, port) as running:
        print(f"\nattnref: http://localhost:{port}/  (Ctrl+C ends it)", flush=True)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print()


def serve_live(language: str, port: int) -> None:
    check_port(port)
    if language not in CONFIGURATION:
        known = " or ".join(CONFIGURATION)
        sys.exit(f"attnref: no language {language!r}; choose LANG={known}.")
    print(f"attnref: http://localhost:{port}/  (Ctrl+C ends it)", flush=True)
    address = ("-a", f"localhost:{port}", "--livereload", "--dirty")
    mkdocs(("serve", "-f", CONFIGURATION[language], *address))


def check_port(port: int) -> None:
    if not 0 < port < 2**16:
        sys.exit(f"attnref: expected a port from 1 to 65535, got {port}: make serve PORT=8000")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            sys.exit(f"attnref: port {port} is not for everybody: make serve PORT=8000")
        except OSError:
            sys.exit(f"attnref: port {port} is busy. Choose another: make serve PORT={port + 1}")


def main() -> None:
    try:
        _main()
    except KeyboardInterrupt:
        sys.exit(130)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["build", "serve", "live"])
    parser.add_argument("--folder", type=Path, default=SITE, help="where it is built")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--language", default="pt")
    arguments = parser.parse_args()
    if arguments.action == "build":
        build(arguments.folder.absolute())
        print(f"\nattnref: the site is in {arguments.folder}; any file server shows it.")
    elif arguments.action == "serve":
        serve(arguments.folder.absolute(), arguments.port)
    else:
        serve_live(arguments.language, arguments.port)


if __name__ == "__main__":
    main()
