"""Builds the site in both languages, and serves it."""

import argparse
import functools
import http.server
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONFIGURATION = {"pt": "mkdocs.yml", "en": "mkdocs.en.yml"}


def build(site: Path) -> None:
    """Each language into its folder of ``site``; the pages that choose between them."""

    def build_one(language: str) -> None:
        folder = site / language
        mkdocs("build", "--strict", "-f", CONFIGURATION[language], "-d", str(folder))
        (folder / "404.html").unlink()  # it would need to know where the site will stand

    with ThreadPoolExecutor() as together:
        list(together.map(build_one, CONFIGURATION))
    shutil.copy(ROOT / "docs" / "choose.html", site / "index.html")
    shutil.copy(ROOT / "docs" / "not-found.html", site / "404.html")


def mkdocs(*arguments: str) -> None:
    # Never with -q: it makes --strict end with status 0 in spite of warnings.
    command = [sys.executable, "-m", "mkdocs", *arguments]
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if result.returncode:
        sys.exit(f"\nattnref: mkdocs {arguments[0]} failed; the lines above name file and line.")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line of log for each."""

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


def live(language: str, port: int) -> None:
    check_port(port)
    if language not in CONFIGURATION:
        known = " or ".join(CONFIGURATION)
        sys.exit(f"attnref: no language {language!r}; choose LANG={known}.")
    print(f"attnref: http://localhost:{port}/  (Ctrl+C ends it)", flush=True)
    mkdocs(
        "serve",
        "-f",
        CONFIGURATION[language],
        "-a",
        f"localhost:{port}",
        "-w",
        "snippets",
        "-w",
        "docs/figures",
    )


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            sys.exit(f"attnref: port {port} is busy. Choose another: make serve PORT={port + 1}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["build", "serve", "live"])
    parser.add_argument("--folder", type=Path, default=ROOT / "site", help="where it is built")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--language", default="pt")
    arguments = parser.parse_args()
    if arguments.action == "build":
        build(arguments.folder.absolute())
        print("\nattnref: the site is in site/; open it with make serve or any file server.")
    elif arguments.action == "serve":
        serve(arguments.folder.absolute(), arguments.port)
    else:
        live(arguments.language, arguments.port)


if __name__ == "__main__":
    main()
