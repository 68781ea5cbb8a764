"""A query that wants two things at once, with one softmax and with two."""

# --8<-- [start:example]
import torch
from attnref import scaled_dot_product_attention

words = {"dog": [1.0, 0.0], "cat": [0.0, 1.0]}
# The key of the subject and that of the object.
key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
ask_subject, ask_object = (9 * key).split(1)  # (1, 2) each


def rounded(output):
    return [round(number, 2) for number in output[0].tolist()]


for subject, other in (("dog", "cat"), ("cat", "dog")):
    value = torch.tensor([words[subject], words[other]])
    ask_both = ask_subject + ask_object
    one = scaled_dot_product_attention(ask_both, key, value)
    first = scaled_dot_product_attention(ask_subject, key, value)
    second = scaled_dot_product_attention(ask_object, key, value)
    print(f"{subject} chases {other}")
    print("  one head: ", rounded(one))
    print("  two heads:", rounded(torch.cat([first, second], dim=-1)))
# --8<-- [end:example]
