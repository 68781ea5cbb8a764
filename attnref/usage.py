"""What the parser of the command line says by itself, help and errors of usage, in Portuguese."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import typer

# Its own phrases, of all versions that are allowed; the rest of a help text is ours.
PHRASES = {
    r"^Usage: (.*?) COMMAND \[ARGS\]\.\.\.": r"Uso: \1 COMANDO [ARGUMENTOS]...",
    r"^Usage: ": "Uso: ",
    r"\[OPTIONS\]": "[OPÇÕES]",
    r"^Options:$": "Opções:",
    r"^Arguments:$": "Argumentos:",
    r"^Commands:$": "Comandos:",
    r"\[required\]": "[obrigatório]",
    r"\[default: ": "[padrão: ",
    r"Show this message and exit\.": "Mostra esta mensagem.",
    r"^No such command ('.+?')\.": r"Não há o comando \1.",
    r"\bDid you mean (.+)\?": r"Seria \1?",
    r"^No such option: (\S+?)(\.?)(?= |$)": r"Não há a opção \1\2",
    r"\(Possible options: (.+)\)": r"(opções parecidas: \1)",
    r"^Missing command\.": "Falta o comando.",
    r"^Missing argument ('.+?')\.": r"Falta o argumento \1.",
    r"^Option ('.+?') requires an argument\.": r"A opção \1 pede um valor.",
    r"^Option ('.+?') does not take a value\.": r"A opção \1 não recebe valor.",
    r"^Got unexpected extra argument(?:s|\(s\))? \((.+)\)": r"Argumentos a mais: \1",
    r"^Invalid value for ('.+?'): ": r"Valor inválido para \1: ",
    r"Input should be a valid integer.*": "deve ser um número inteiro.",
    r"Input should be a valid number.*": "deve ser um número.",
    r"('[^']*') is not a valid integer\.": r"\1 não é um número inteiro.",
    r"('[^']*') is not a valid float\.": r"\1 não é um número.",
}
COMPLETION = {
    "install_completion": "Instala o autocompletar no shell atual.",
    "show_completion": "Mostra o autocompletar do shell atual, para copiá-lo ou adaptá-lo.",
}
# By whatever name typer's parser has it: click's own, or the one that comes with typer.
_UsageError: type[Any] = typer.BadParameter.__bases__[0]


def translate_command(command: Any) -> Any:
    """The command, which says in Portuguese what its parser says in English.

    Examples:
        >>> translate("No such command 'chek'. Did you mean 'check'?")
        "Não há o comando 'chek'. Seria 'check'?"
    """
    for each in _walk_commands(command):
        each.get_help = _translate_output(each.get_help)
        each.get_usage = _translate_output(each.get_usage)
        for parameter in each.params:
            parameter.help = COMPLETION.get(parameter.name, getattr(parameter, "help", None))
    command.make_context = _telling(command.make_context)
    command.invoke = _telling(command.invoke)
    return command


def translate(text: str) -> str:
    """The text with the parser's own phrases in Portuguese."""
    for english, portuguese in PHRASES.items():
        text = re.sub(english, portuguese, text, flags=re.MULTILINE)
    return text


def _walk_commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _walk_commands(each)


def _translate_output(say: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda context: translate(say(context))


def _telling(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, whose errors of usage are shown in Portuguese."""

    def run(*given: Any, **named: Any) -> Any:
        try:
            return work(*given, **named)
        except _UsageError as error:
            if type(error).__name__ != "NoArgsIsHelpError":  # which is the help itself
                said = f"Erro: {translate(error.format_message())}"
                if error.ctx is not None:
                    hint = f"Veja '{error.ctx.command_path} {error.ctx.help_option_names[0]}'."
                    said = f"{error.ctx.get_usage()}\n{hint}\n\n{said}"
                error.show = lambda: typer.echo(said, err=True)
            raise

    return run
