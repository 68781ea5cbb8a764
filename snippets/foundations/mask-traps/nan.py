"""Two ways for NaN to spread: a row without keys, a value behind the mask."""

# --8<-- [start:example]
import attnref
import torch


def by_hand(query, key, value, may):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(~may, -torch.inf), -1) @ value


def bad_rows(output):
    return output.isnan().any(-1).int().tolist()


generator = torch.Generator().manual_seed(0)
x = torch.randn(5, 4, generator=generator)
empty_row = torch.ones(5, 5, dtype=torch.bool).tril(-1)  # query 0 sees none
all_pairs = torch.ones(5, 5, dtype=torch.bool)
spoiled = x.clone()
spoiled[4] = torch.nan  # memory that nobody has written yet
hidden = all_pairs.clone()
hidden[:, 4] = False

for name, attend in (
    ("by hand", by_hand),
    ("attnref", attnref.scaled_dot_product_attention),
):
    first = attend(x, x, x, empty_row)
    second = attend(first, first, first, all_pairs)
    print(name)
    print("  a row without keys:", bad_rows(first))
    print("  one layer later:   ", bad_rows(second))
    print("  a hidden NaN value:", bad_rows(attend(x, x, spoiled, hidden)))
# --8<-- [end:example]
