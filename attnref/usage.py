"""What the parser of the command line says by itself, of help and usage, in other languages."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import typer

from attnref.text import Text

# Its own phrases, of all versions that are allowed; the rest of a help text is ours.
PHRASES = {
    r"^Usage: (?P<command>.*?) COMMAND \[ARGS\]\.\.\.": Text(
        en="Usage: {command} COMMAND [ARGS]...", pt="Uso: {command} COMANDO [ARGUMENTOS]..."
    ),
    r"^Usage: ": Text(en="Usage: ", pt="Uso: "),
    r"\[OPTIONS\]": Text(en="[OPTIONS]", pt="[OPÇÕES]"),
    r"^Options:$": Text(en="Options:", pt="Opções:"),
    r"^Arguments:$": Text(en="Arguments:", pt="Argumentos:"),
    r"^Commands:$": Text(en="Commands:", pt="Comandos:"),
    r"\[required\]": Text(en="[required]", pt="[obrigatório]"),
    r"\[default: ": Text(en="[default: ", pt="[padrão: "),
    r"Show this message and exit\.": Text(
        en="Show this message and exit.", pt="Mostra esta mensagem."
    ),
    r"^No such command (?P<name>'.+?')\.": Text(
        en="No such command {name}.", pt="Não há o comando {name}."
    ),
    r"\bDid you mean (?P<names>.+)\?": Text(en="Did you mean {names}?", pt="Seria {names}?"),
    r"^No such option: (?P<name>\S+?)(?P<end>\.?)(?= |$)": Text(
        en="No such option: {name}{end}", pt="Não há a opção {name}{end}"
    ),
    r"\(Possible options: (?P<names>.+)\)": Text(
        en="(Possible options: {names})", pt="(opções parecidas: {names})"
    ),
    r"^Missing command\.": Text(en="Missing command.", pt="Falta o comando."),
    r"^Missing argument (?P<name>'.+?')\.": Text(
        en="Missing argument {name}.", pt="Falta o argumento {name}."
    ),
    r"^Option (?P<name>'.+?') requires an argument\.": Text(
        en="Option {name} requires an argument.", pt="A opção {name} pede um valor."
    ),
    r"^Option (?P<name>'.+?') does not take a value\.": Text(
        en="Option {name} does not take a value.", pt="A opção {name} não recebe valor."
    ),
    r"^Got unexpected extra argument(?:s|\(s\))? \((?P<names>.+)\)": Text(
        en="Got unexpected extra arguments ({names})", pt="Argumentos a mais: {names}"
    ),
    r"^Invalid value for (?P<name>'.+?'): ": Text(
        en="Invalid value for {name}: ", pt="Valor inválido para {name}: "
    ),
    r"Input should be a valid integer.*": Text(
        en="Input should be a valid integer.", pt="deve ser um número inteiro."
    ),
    r"Input should be a valid number.*": Text(
        en="Input should be a valid number.", pt="deve ser um número."
    ),
    r"(?P<got>'[^']*') is not a valid integer\.": Text(
        en="{got} is not a valid integer.", pt="{got} não é um número inteiro."
    ),
    r"(?P<got>'[^']*') is not a valid float\.": Text(
        en="{got} is not a valid float.", pt="{got} não é um número."
    ),
    r"^Install completion for the current shell\.": Text(
        en="Install completion for the current shell.",
        pt="Instala o autocompletar no shell atual.",
    ),
    r"^Show completion for the current shell.*": Text(
        en="Show completion for the current shell, to copy it or customize the installation.",
        pt="Mostra o autocompletar do shell atual, para copiá-lo ou adaptá-lo.",
    ),
}
ERROR = Text(en="Error: {error}", pt="Erro: {error}")
TRY = Text(en="Try {command} for help.", pt="Veja {command}.")
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
