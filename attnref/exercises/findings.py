"""What can be wrong with a learner's function, in both languages.

``{which}`` is what was looked at: the result, a part of it, a gradient.
"""

from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

THE_RESULT = Text("The result")
THE_GRADIENT = Text("The gradient of {argument}")
A_PART = Text("Result {number} of {count}")
THE_LARGEST = Text("The largest tensor that it makes, in numbers,")
THE_BLOCKS = Text("The largest count of blocks that it holds at a time")
THE_PAST = Text("The change of the earlier logits when the last letter changes")
THE_LOSS = Text("The loss after training")
THE_CACHE = Text("The change that the cache makes to the logits")

VALUE = Text(
    "{which} is wrong in {wrong} of {all} numbers, first at {where}: "
    "expected {expected}, got {came}."
)
NUMBER = Text("{which} is {came}, expected {expected}.")
AT_MOST = Text("{which} is {came}, expected at most {expected}.")
SHAPE = Text("{which} has shape {came}, expected {expected}.")
DTYPE = Text("{which} is of {came}, expected {expected}.")
TYPE = Text("{which} is of type {came}, expected {expected}.")
NOTHING = Text("{which} is None. Does every path end in return?")
CHANGED = Text(
    "It changed its argument {argument}. Make a new tensor instead of writing into that one."
)
SHORTCUT = Text("It calls {called}. That is what you are to write yourself.")
NO_GRADIENT = Text("The result carries no gradient. Is it cut off by detach, item or no_grad?")
RAISED = Text("It raised {error}.")
RAISED_AT = Text("It raised {error}, in line {line}: {code}")
UNWRITTEN = Text("It is not written yet.")

# Of the file: with these there is no function to be judged.
SYNTAX = Text("The file is not valid Python: {error}, in line {line}: {code}")
UNREADABLE = Text("The file could not be read: {error}.")
FILE_RAISED = Text("The file raised {error} when it was loaded, in line {line}: {code}")
NO_FUNCTION = Text("The file has no function {name}. It has: {there}.")
PARTS = Text("The file uses functions of yours, and in its folder these are not solved: {names}.")
SIGNATURE = Text(
    "The signature must be {name}{expected}, but is {name}{came}. Leave the parameters as they "
    "were."
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
