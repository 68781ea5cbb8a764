"""What the checker says of a causal mask, off by one and fixed."""

# --8<-- [start:example]
from pathlib import Path

from shell import typed

HERE = Path(__file__).parent

ASKED = "--only shape,causality,own_token,alignment"
typed(f"attnref check causal.py:attention {ASKED}", HERE)
typed(f"attnref check fixed.py:attention {ASKED}", HERE)
# --8<-- [end:example]
