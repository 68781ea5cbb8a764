"""What the checker says of an attention of one's own."""

# --8<-- [start:example]
from pathlib import Path

from shell import typed

HERE = Path(__file__).parent

WHAT = "my_attention.py:attention"
typed(f"attnref check {WHAT}", HERE, grep="unsafe")
typed(f"attnref check {WHAT} --only oracle,fully_masked", HERE)
typed(f"attnref check {WHAT} --only fully_masked --lang pt", HERE)
# --8<-- [end:example]
