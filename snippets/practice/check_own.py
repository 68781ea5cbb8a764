"""What the checker says of an attention of one's own."""

# --8<-- [start:example]
from shell import typed

WHAT = "my_attention.py:attention"
typed(f"attnref check {WHAT}", grep="fail")
typed(f"attnref check {WHAT} --only oracle,fully_masked")
typed(f"attnref check {WHAT} --only fully_masked --lang pt")
# --8<-- [end:example]
