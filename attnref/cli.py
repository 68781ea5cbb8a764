"""The command ``attnref``: a list of subcommands, each defined where its work is."""

import importlib
import sys

# The module of each subcommand; its function there, or its app of more of them, has that name.
COMMANDS = {
    "bench": "attnref.bench.command",
    "check": "attnref.conformance.command",
    "copy": "attnref.copying.command",
    "exercise": "attnref.exercises.command",
}


def main() -> None:
    """Runs the subcommand that the command line names.

    Without the packages of the command line it says how to install them and exits with 2.
    """
    try:
        import typer
    except ModuleNotFoundError:
        message = "attnref: the command line needs typer and rich; pip install 'attnref[cli]'"
        print(message, file=sys.stderr)
        sys.exit(2)
    # Plain text without boxes: an error is a line to read, or to search for.
    app = typer.Typer(
        help="Scaled dot-product attention: the reference, judged and measured.",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(lambda: None)  # or a single subcommand would go without its name
    for name, module in COMMANDS.items():
        command = getattr(importlib.import_module(module), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    app(prog_name="attnref")
