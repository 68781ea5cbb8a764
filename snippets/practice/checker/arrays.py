"""An attention in NumPy, which the checker hands arrays of NumPy's."""

# --8<-- [start:example]
import numpy as np


def attention(query, key, value):
    scores = query @ np.swapaxes(key, -1, -2) / query.shape[-1] ** 0.5
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ value


if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    asked = "--only oracle,row_sums,large_scores,gradients"
    typed(f"attnref check arrays.py:attention {asked}", Path(__file__).parent)
# --8<-- [end:example]
