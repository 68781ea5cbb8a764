"""What a copy needs: definitions in their order, imports, and the names that all of them have."""

import ast
import sys
from collections.abc import Collection, Iterable

from attnref.copying.source import CopyError, Definition, Reference, Source

_MAY_IMPORT = {"torch"} | sys.stdlib_module_names

# What each imported name stands for: the statements that import it, none for a builtin.
Imports = dict[str, frozenset[str]]


def find_needed(entry: Definition) -> list[Definition]:
    """The definition and all that it needs, in the order in which they can come.

    That is what its code and its examples use, and what the code of these uses. It is in the
    order of the modules, each after those that it imports, and in a module as there.
    """
    found: set[Definition] = set()
    waiting = [entry]
    while waiting:
        definition = waiting.pop()
        if definition in found:
            continue
        found.add(definition)
        _check_inner_imports(definition)
        uses = list(definition.references)
        if definition is entry:  # its examples are to run; those of what it brings need not
            uses += (used for examples in entry.examples for used in examples.references)
        waiting += (used.target for used in uses if used.target is not None)

    order: list[Source] = []
    seen: set[Source] = set()

    def place(source: Source) -> None:
        """Behind all modules that its code needs."""
        if source in seen:
            return
        seen.add(source)
        others = {
            used.target.source
            for definition in found
            if definition.source is source
            for used in definition.references
            if used.target is not None
        }
        for other in sorted(others, key=lambda source: source.module):
            place(other)
        order.append(source)

    for source in (entry.source, *sorted({one.source for one in found}, key=lambda s: s.module)):
        place(source)
    return sorted(found, key=lambda one: (order.index(one.source), one.statements[0].lineno))


def _check_inner_imports(definition: Definition) -> None:
    """An import in a function stays where it is: it must not be one of the package."""
    for statement in definition.statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                inside, outside = definition.source.imports(node)
                if inside:
                    raise CopyError(
                        en=f"{definition.source.dotted}, line {node.lineno}: expected {definition} "
                        f"to import nothing of {definition.source.package.name} within a function, "
                        f"got {ast.unparse(node)!r}. Import it at the top of the module.",
                        pt=f"{definition.source.dotted}, linha {node.lineno}: o esperado era que "
                        f"{definition} não importasse nada de {definition.source.package.name} "
                        f"dentro de uma função, veio {ast.unparse(node)!r}. Importe-o no topo do "
                        "módulo.",
                    )
                for text in outside.values():
                    _check_origin(text, definition)


def _check_origin(statement: str, user: Definition) -> None:
    origin = statement.split()[1].partition(".")[0]
    if origin not in _MAY_IMPORT:
        raise CopyError(
            en=f"{user}: expected imports of torch and the standard library alone, for these a "
            f"copy may need, got {statement!r}. What needs more cannot be copied: "
            "install the package.",
            pt=f"{user}: o esperado eram imports só de torch e da biblioteca padrão, de que uma "
            f"cópia pode precisar, veio {statement!r}. O que precisa de mais não se copia: instale "
            "o pacote.",
        )


def find_imports(references: Iterable[Reference]) -> Imports:
    """What comes from outside of the package, by the names that it has."""
    found: Imports = {}
    users: dict[str, Definition] = {}
    for used in references:
        if used.target is not None:
            continue
        statements = frozenset(used.user.source.outside.get(used.name, ()))
        for statement in statements:
            _check_origin(statement, used.user)
        known = found.setdefault(used.name, statements)
        first = users.setdefault(used.name, used.user)
        if known != statements:
            raise CopyError(
                en=f"{used.name}: expected one meaning in all that is copied, got "
                f"{_meaning(known)} in {first} and {_meaning(statements)} in {used.user}. Import "
                "one of them under another name.",
                pt=f"{used.name}: o esperado era um só significado em tudo o que se copia, vieram "
                f"{_meaning(known)} em {first} e {_meaning(statements)} em {used.user}. Importe um "
                "deles com outro nome.",
            )
    return found


def _meaning(statements: frozenset[str]) -> str:
    return repr("; ".join(sorted(statements))) if statements else "the builtin"


def find_names(
    entry: Definition, references: Iterable[Reference], taken: Collection[str]
) -> dict[tuple[Definition, str], str]:
    """Under which name each definition is in the file.

    Its own, where that is free: no other definition has it, no import, and no variable where it
    is used, as in ``causal = masks.causal(n)``. Else that of its module is put before it. What is
    copied keeps its name, and its module comes first.

    Args:
        entry: what is copied.
        references: all that are to be seen in the file.
        taken: names of imports and builtins.

    Raises:
        CopyError: where neither name is free.
    """
    hidden: dict[tuple[Definition, str], set[str]] = {}
    for used in references:
        if used.target is not None:
            hidden.setdefault((used.target, used.name), set()).update(used.hidden)
    names: dict[tuple[Definition, str], str] = {}
    for definition, name in sorted(
        hidden, key=lambda key: (key[0] is not entry, key[0].source is not entry.source)
    ):
        choices = [name] if definition is entry else [name, _qualify(definition, name)]
        forbidden = {*taken, *names.values(), *hidden[definition, name]}
        free = [choice for choice in choices if choice not in forbidden]
        if not free:
            raise CopyError(
                en=f"{entry}: expected a free name for {definition} in one file, got "
                f"{' and '.join(choices)}, which mean something else there. Rename one of them.",
                pt=f"{entry}: o esperado era um nome livre para {definition} em um só arquivo, "
                f"vieram {' e '.join(choices)}, que ali já são outra coisa. "
                "Mude o nome de um deles.",
            )
        names[definition, name] = free[0]
    return names


def _qualify(definition: Definition, name: str) -> str:
    """The name with that of its module before it, or of the folder whose users know it."""
    folder, _, module = definition.source.module.rpartition(".")
    above = definition.source.package.source(folder)
    if folder and above is not None and name in above.inside:
        module = folder.rpartition(".")[-1]
    plain, module = name.lstrip("_"), module.lstrip("_")  # a class mangles two underscores
    if isinstance(definition.statements[0], ast.ClassDef):
        plain = f"{module.title().replace('_', '')}{plain}"
    elif plain.isupper():
        plain = f"{module.upper()}_{plain}"
    else:
        plain = f"{module}_{plain}"
    return f"_{plain}" if name.startswith("_") else plain
