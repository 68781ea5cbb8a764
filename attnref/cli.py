"""The command ``attnref``: a list of subcommands, each defined where its work is."""

import importlib
import io
import os
import sys
import traceback
from typing import Annotated, NoReturn

import attnref
from attnref.book import install
from attnref.text import Text, choose_help, choose_language, preferred_language, translate_help

# The module of each subcommand; its function there, or its app of more of them, has that name.
COMMANDS = {
    "bench": "attnref.bench.command",
    "check": "attnref.conformance.command",
    "copy": "attnref.copying.command",
    "exercise": "attnref.exercises.command",
    "watch": "attnref.watching.command",
}
NO_TYPER = Text("the command line needs typer and rich. {install}")
CLOSED = Text("standard output is closed. Redirect it to a file.")
BROKE = Text("this is not a finding: an error occurred, shown above.")
LOST = Text("{error}. The output was not written, or only in part.")


def main() -> None:
    """Runs the subcommand that the command line names.

    The exit status is the subcommand's own; 2 where something broke, so that 1 is always a
    finding. Without the packages of the command line it says how to install them.
    """
    try:
        import typer
    except ModuleNotFoundError:
        _stop(NO_TYPER.fill({"install": install("cli")}))
    # Closed by the caller: the next file that is opened would take its place.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        _stop(CLOSED)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a sign that its encoding lacks becomes "?"
            stream.reconfigure(errors="replace")

    def show_version(wanted: bool) -> None:
        if wanted:
            print(f"attnref {attnref.__version__}")
            raise typer.Exit

    version = typer.Option(
        "--version",
        callback=show_version,
        is_eager=True,
        help=choose_help("Print the version."),
    )

    @translate_help
    def attnref_(version: Annotated[bool, version] = False) -> None:
        """Scaled dot-product attention: the reference, tested and measured."""

    # Plain text without boxes: an error is a line to read, or to search for.
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(attnref_)
    for name, module in COMMANDS.items():
        command = getattr(importlib.import_module(module), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            settings = getattr(command, "context_settings", None)
            app.command(name, context_settings=settings)(command)
    commands = typer.main.get_command(app)
    lang = choose_language(sys.argv, os.environ)
    if lang != "en":
        commands = importlib.import_module("attnref.usage").translate_command(commands, lang)
    out = sys.stdout
    try:
        commands(prog_name="attnref")
    except SystemExit as end:
        # Its reader has gone: typer ends with 1 then, and so does rich.
        if isinstance(end.__context__, BrokenPipeError):
            sys.exit(2)
        try:
            out.flush()  # a full disk is noticed here, not when Python has gone
        except OSError as error:
            _stop_writing(error)
        raise
    except OSError as error:
        _stop_writing(error)
    except Exception:
        traceback.print_exc()
        _stop(BROKE)


def _stop_writing(error: OSError) -> NoReturn:
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (or Python would try once more, at its end)
    _stop(LOST.fill({"error": error}))


def _stop(message: Text) -> NoReturn:
    print(f"attnref: {message.say(preferred_language(os.environ))}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
