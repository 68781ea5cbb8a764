"""What can be wrong with a learner's function, in both languages.

``{which}`` is what was looked at: the result, a part of it, a gradient.
"""

from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

THE_RESULT = Text(en="The result", pt="O resultado")
THE_GRADIENT = Text(en="The gradient of {argument}", pt="O gradiente de {argument}")
A_PART = Text(en="Result {number} of {count}", pt="O resultado {number} de {count}")
THE_LARGEST = Text(
    en="The largest tensor that it makes, in numbers,",
    pt="O maior tensor que ela cria, em números,",
)
THE_BLOCKS = Text(
    en="The largest count of blocks that it holds at a time",
    pt="O maior total de blocos que ela guarda de uma vez",
)
THE_PAST = Text(
    en="The change of the earlier logits when the last letter changes",
    pt="A mudança dos logits anteriores quando a última letra muda",
)
THE_LOSS = Text(en="The loss after training", pt="A perda depois do treinamento")
THE_CACHE = Text(
    en="The change that the cache makes to the logits",
    pt="A mudança que o cache faz nos logits",
)

VALUE = Text(
    en="{which} is wrong in {wrong} of {all} numbers, first at {where}: "
    "expected {expected}, got {came}.",
    pt="{which} está errado em {wrong} de {all} números, o primeiro em {where}: deveria ser "
    "{expected}, mas é {came}.",
)
NUMBER = Text(
    en="{which} is {came}, expected {expected}.",
    pt="{which} é {came}, mas deveria ser {expected}.",
)
AT_MOST = Text(
    en="{which} is {came}, expected at most {expected}.",
    pt="{which} é {came}, mas deveria ser no máximo {expected}.",
)
SHAPE = Text(
    en="{which} has shape {came}, expected {expected}.",
    pt="{which} tem a forma {came}, mas deveria ser {expected}.",
)
DTYPE = Text(
    en="{which} is of {came}, expected {expected}.",
    pt="{which} é de {came}, mas deveria ser de {expected}.",
)
TYPE = Text(
    en="{which} is of type {came}, expected {expected}.",
    pt="{which} é do tipo {came}, mas deveria ser {expected}.",
)
NOTHING = Text(
    en="{which} is None. Does every path end in return?",
    pt="{which} é None. Todo caminho termina em return?",
)
CHANGED = Text(
    en="It changed its argument {argument}. Make a new tensor instead of writing into that one.",
    pt="Ela alterou o argumento {argument}. Crie um tensor novo em vez de escrever naquele.",
)
SHORTCUT = Text(
    en="It calls {called}. That is what you are to write yourself.",
    pt="Ela chama {called}. É justamente isso que cabe a você escrever.",
)
NO_GRADIENT = Text(
    en="The result carries no gradient. Is it cut off by detach, item or no_grad?",
    pt="O resultado não leva gradiente. Ele foi cortado por detach, item ou no_grad?",
)
RAISED = Text(en="It raised {error}.", pt="Ela lançou um erro. O Python diz: {error}.")
RAISED_AT = Text(
    en="It raised {error}, in line {line}: {code}",
    pt="Ela lançou um erro. O Python diz: {error}, na linha {line}: {code}",
)
UNWRITTEN = Text(en="It is not written yet.", pt="Ela ainda não foi escrita.")

# Of the file: with these there is no function to be judged.
SYNTAX = Text(
    en="The file is not valid Python: {error}, in line {line}: {code}",
    pt="O arquivo não é Python válido. O Python diz: {error}, na linha {line}: {code}",
)
UNREADABLE = Text(
    en="The file could not be read: {error}.",
    pt="O arquivo não pôde ser lido. O Python diz: {error}.",
)
FILE_RAISED = Text(
    en="The file raised {error} when it was loaded, in line {line}: {code}",
    pt="O arquivo lançou um erro ao ser carregado. O Python diz: {error}, na linha {line}: {code}",
)
NO_FUNCTION = Text(
    en="The file has no function {name}. It has: {there}.",
    pt="O arquivo não tem a função {name}. Ele tem: {there}.",
)
PARTS = Text(
    en="The file uses functions of yours, and in its folder these are not solved: {names}.",
    pt="O arquivo usa funções suas, e na pasta dele estas não estão resolvidas: {names}.",
)
SIGNATURE = Text(
    en="The signature must be {name}{expected}, but is {name}{came}. Leave the parameters as they "
    "were.",
    pt="A assinatura deve ser {name}{expected}, mas é {name}{came}. Deixe os parâmetros como "
    "estavam.",
)


# What is wrong, in a word: a wrong number, a property of the result, or how the call ended.
_KINDS = {
    **dict.fromkeys((VALUE, NUMBER, AT_MOST), "value"),
    SHAPE: "shape",
    DTYPE: "dtype",
    TYPE: "type",
    NOTHING: "nothing",
    CHANGED: "changed",
    SHORTCUT: "shortcut",
    NO_GRADIENT: "no gradient",
    UNWRITTEN: "unwritten",
}


def kind(finding: Finding) -> str:
    """What is wrong, in a word; of an error its type, and "process" where it did not come back.

    Examples:
        >>> kind(failure(RAISED, error="IndexError: too many indices")), kind(failure(SHAPE))
        ('IndexError', 'shape')
    """
    if finding.text in (RAISED, RAISED_AT):
        return str(finding.values["error"]).partition(":")[0]
    return _KINDS.get(finding.text, "process")


def failure(text: Text, **values: object) -> Finding:
    """That it failed, and why."""
    return Finding(Verdict.WRONG, text, values)
