"""A query that wants two things at once, with one softmax and with two."""

# --8<-- [start:example]
import torch
from attnref import scaled_dot_product_attention

# Who did it, and to whom? The verb asks its two neighbours.
word = {"dog": [1.0, 0.0], "cat": [0.0, 1.0]}
ask_subject, ask_object = (
    torch.tensor([[9.0, 0.0]]),
    torch.tensor([[0.0, 9.0]]),
)
key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # the subject, the object

for subject, other in (("dog", "cat"), ("cat", "dog")):
    value = torch.tensor([word[subject], word[other]])
    one = scaled_dot_product_attention(ask_subject + ask_object, key, value)
    two = [
        scaled_dot_product_attention(query, key, value)
        for query in (ask_subject, ask_object)
    ]
    print(f"{subject} chases {other}:", end="")
    print(
        "  one head", [round(number, 2) for number in one[0].tolist()], end=""
    )
    joined = torch.cat(two, dim=-1)[0].tolist()
    print("  two heads", [round(number, 2) for number in joined])
# --8<-- [end:example]
