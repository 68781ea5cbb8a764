"""What is said of the first attempt at an exercise, in both languages."""

# --8<-- [start:example]
from pathlib import Path

from shell import typed

HERE = Path(__file__).parent

typed("attnref exercise check stable_softmax --lang pt", HERE)
typed("attnref exercise check stable_softmax --lang en", HERE)
# --8<-- [end:example]
