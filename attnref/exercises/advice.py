"""What to do about a failure that is not a wrong number, in both languages.

The usual slip of a check explains wrong numbers; a shape, a dtype or an error has its own reasons.
"""

from attnref.conformance.verdict import Finding
from attnref.exercises.findings import kind
from attnref.text import Text

SHAPE = Text(
    "Compare the shape with the one in the docstring, dimension by dimension. A sum or a "
    "maximum drops its dimension unless it has keepdim=True, and broadcasting adds dimensions in "
    "front."
)
BOOLS = Text(
    "The values may be right, but the caller counts on bool. A comparison gives bool; "
    "torch.ones and torch.zeros do with dtype=torch.bool."
)
INTEGERS = Text(
    "The values may be right, but the caller counts on integers. torch.arange makes them; a "
    "list with decimal points, and an empty one, become float32."
)
FLOATS = Text(
    "The values may be right, but the caller counts on the dtype of the inputs. Comparisons "
    "give bool, `.double()` gives float64; `.to(x.dtype)` converts back."
)
TYPE = Text(
    "The docstring says what is returned, and in which order. A tensor is neither a number of "
    "Python nor a list, and several results are a tuple."
)
CHANGED = Text(
    "`x += …`, `x[…] = …` and methods whose name ends in `_`, such as masked_fill_, write into "
    "x itself. `x = x + …`, torch.where and masked_fill make a new tensor."
)
ONE_TRUTH = Text(
    "Python asked a whole tensor for a single True or False. `if`, `and`, `or`, `not` and "
    "chained comparisons do that, and so does `a >= 0 & a < b`, because & binds more tightly than "
    "a comparison. Write each comparison in parentheses: (a >= 0) & (a < b)."
)
DTYPES = Text(
    "An operation got a dtype that it does not know, or two that do not go together. Print the "
    "dtype of each tensor in the line; `.to(x.dtype)` converts to that of x."
)
SIZES = Text(
    "Two shapes do not go together. Print the shape of each tensor in the line: they are "
    "matched from the last dimension on, a sum drops its dimension unless it has keepdim=True, "
    "and `.mT` exchanges the last two."
)
PLACES = Text(
    "The line counts on other dimensions, or other entries, than there are. Count dimensions "
    "from the end, -1 and -2: there may be more or fewer in front."
)
NAMES = Text(
    "That name has no value there. Is it misspelled, given a value only later, or not imported?"
)
ATTRIBUTES = Text(
    "The object has nothing of that name. Is the name misspelled, or is the object not what "
    "you take it for? Print its type."
)
CALLS = Text(
    "A function or an operator got something that it does not accept. Print the type of each "
    "value in the line; an argument that may be left out can be None."
)
OTHERWISE = Text(
    "Call your function in its file as shown here, print what goes into the line, and run the file."
)

_KINDS = {"shape": SHAPE, "type": TYPE, "changed": CHANGED}
# What has a message of its own says what to do.
_PLAIN = frozenset({"value", "nothing", "no gradient", "shortcut", "process", "unwritten"})
_DTYPES = {"bool": BOOLS, "int": INTEGERS}
# The type of an error, what its message has in it, and what to do: the first that fits.
_ERRORS = (
    ("RuntimeError", "Boolean value of Tensor", ONE_TRUTH),
    ("NotImplementedError", "not implemented for", DTYPES),
    ("RuntimeError", "dtype", DTYPES),
    ("RuntimeError", "scalar type", DTYPES),
    ("RuntimeError", "size", SIZES),
    ("RuntimeError", "shape", SIZES),
    ("RuntimeError", "dimension", SIZES),
    ("IndexError", "", PLACES),
    ("ValueError", "unpack", PLACES),
    ("NameError", "", NAMES),
    ("UnboundLocalError", "", NAMES),
    ("AttributeError", "", ATTRIBUTES),
    ("TypeError", "", CALLS),
)


def advice(finding: Finding) -> Text | None:
    """What to do, None where the finding says it itself or is a wrong number.

    Examples:
        >>> from attnref.exercises.findings import RAISED, failure
        >>> advice(failure(RAISED, error="NameError: name 'quary' is not defined")) is NAMES
        True
    """
    what = kind(finding)
    if what in _PLAIN:
        return None
    if what == "dtype":
        expected = str(finding.values["expected"]).removeprefix("torch.")
        return _DTYPES.get(expected.rstrip("0123456789"), FLOATS)
    if what in _KINDS:
        return _KINDS[what]
    message = str(finding.values["error"])
    fitting = (text for error, part, text in _ERRORS if error == what and part in message)
    return next(fitting, OTHERWISE)
