"""What the checker says of two blocks of two keys for each query."""

# --8<-- [start:example]
from functools import partial

from attnref import check, moba_attention

attention = partial(moba_attention, block_size=2, num_blocks=2)
print(check(attention, limit=None).verdict())
# --8<-- [end:example]
