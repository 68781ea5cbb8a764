"""What is said of the first attempt at an exercise, in both languages."""

# --8<-- [start:example]
from shell import typed

typed("attnref exercise check stable_softmax --lang pt")
typed("attnref exercise check stable_softmax --lang en")
# --8<-- [end:example]
