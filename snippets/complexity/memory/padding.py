"""How much of a padded batch is real."""

# --8<-- [start:example]
from attnref import cost

for name, lengths in {
    "one long, 31 short": [512] + 31 * [32],
    "from 1 to 512": list(range(1, 513)),
    "all alike": 32 * [512],
}.items():
    slots, scores = cost.useful_share(lengths)
    print(f"{name:18}  slots {slots:6.1%}  scores {scores:6.1%}")
# --8<-- [end:example]
