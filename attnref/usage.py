"""What the parser of the command line says by itself, of help and usage, in other languages."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import typer

from attnref.text import Text

# Its own phrases, of all versions that are allowed; the rest of a help text is ours.
PHRASES = {
    r"^Usage: (?P<command>.*?) COMMAND \[ARGS\]\.\.\.": Text("Usage: {command} COMMAND [ARGS]..."),
    r"^Usage: ": Text("Usage: "),
    r"\[OPTIONS\]": Text("[OPTIONS]"),
    r"^Options:$": Text("Options:"),
    r"^Arguments:$": Text("Arguments:"),
    r"^Commands:$": Text("Commands:"),
    r"\[required\]": Text("[required]"),
    r"\[default: ": Text("[default: "),
    r"Show this message and exit\.": Text("Show this message and exit."),
    r"^No such command (?P<name>'.+?')\.": Text("No such command {name}."),
    r"\bDid you mean (?P<names>.+)\?": Text("Did you mean {names}?"),
    r"^No such option: (?P<name>\S+?)(?P<end>\.?)(?= |$)": Text("No such option: {name}{end}"),
    r"\(Possible options: (?P<names>.+)\)": Text("(Possible options: {names})"),
    r"^Missing command\.": Text("Missing command."),
    r"^Missing argument (?P<name>'.+?')\.": Text("Missing argument {name}."),
    r"^Option (?P<name>'.+?') requires an argument\.": Text("Option {name} requires an argument."),
    r"^Option (?P<name>'.+?') does not take a value\.": Text(
        "Option {name} does not take a value."
    ),
    r"^Got unexpected extra argument(?:s|\(s\))? \((?P<names>.+)\)": Text(
        "Got unexpected extra arguments ({names})"
    ),
    r"^Invalid value for (?P<name>'.+?'): ": Text("Invalid value for {name}: "),
    r"Input should be a valid integer.*": Text("Input should be a valid integer."),
    r"Input should be a valid number.*": Text("Input should be a valid number."),
    r"(?P<got>'[^']*') is not a valid integer\.": Text("{got} is not a valid integer."),
    r"(?P<got>'[^']*') is not a valid float\.": Text("{got} is not a valid float."),
    r"^Install completion for the current shell\.": Text(
        "Install completion for the current shell."
    ),
    r"^Show completion for the current shell.*": Text(
        "Show completion for the current shell, to copy it or customize the installation."
    ),
}
ERROR = Text("Error: {error}")
TRY = Text("Try {command} for help.")
# By whatever name typer's parser has it: click's own, or the one that comes with typer.
_UsageError: type[Any] = typer.BadParameter.__bases__[0]


def translate_command(command: Any, lang: str) -> Any:
    """The command, which says in ``lang`` what its parser says in English.

    Examples:
        >>> translate("No such command 'chek'. Did you mean 'check'?", "pt")
        "Não há o comando 'chek'. Seria 'check'?"
    """
    for each in _walk_commands(command):
        each.get_help = _translate_output(each.get_help, lang)
        each.get_usage = _translate_output(each.get_usage, lang)
        for parameter in each.params:
            if getattr(parameter, "help", None):
                parameter.help = translate(parameter.help, lang)
    command.make_context = _telling(command.make_context, lang)
    command.invoke = _telling(command.invoke, lang)
    return command


def translate(text: str, lang: str) -> str:
    """The text with the parser's own phrases in ``lang``."""
    for pattern, phrase in PHRASES.items():

        def say(match: re.Match[str], phrase: Text = phrase) -> str:
            return phrase.say(lang, match.groupdict())

        text = re.sub(pattern, say, text, flags=re.MULTILINE)
    return text


def _walk_commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _walk_commands(each)


def _translate_output(say: Callable[[Any], str], lang: str) -> Callable[[Any], str]:
    return lambda context: translate(say(context), lang)


def _telling(work: Callable[..., Any], lang: str) -> Callable[..., Any]:
    """The same work, whose errors of usage are shown in ``lang``."""

    def run(*given: Any, **named: Any) -> Any:
        try:
            return work(*given, **named)
        except _UsageError as error:
            if type(error).__name__ != "NoArgsIsHelpError":  # which is the help itself
                said = ERROR.say(lang, {"error": translate(error.format_message(), lang)})
                if error.ctx is not None:
                    called = f"'{error.ctx.command_path} {error.ctx.help_option_names[0]}'"
                    hint = TRY.say(lang, {"command": called})
                    said = f"{error.ctx.get_usage()}\n{hint}\n\n{said}"
                error.show = lambda: typer.echo(said, err=True)
            raise

    return run
