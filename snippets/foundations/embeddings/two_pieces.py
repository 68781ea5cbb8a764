"""The share of a word that is cut into two tokens."""

# --8<-- [start:example]
import torch

scores = {
    "Your": 0.9544,
    "journey": 1.4950,
    "starts": 1.4754,
    "with": 0.8434,
    "one": 0.7070,
    "step": 1.0865,
}
whole = torch.softmax(torch.tensor(list(scores.values())), dim=-1)
p = whole[2].item()

# "start" and "s" instead of "starts", both with the score of the whole
cut = torch.tensor([*scores.values(), scores["starts"]])
pieces = torch.softmax(cut, dim=-1)

print(f"share of starts as one token:  {p:.4f}")
print(f"share of its two pieces:       {pieces[2] + pieces[6]:.4f}")
print(f"2p/(1 + p):                    {2 * p / (1 + p):.4f}")
# --8<-- [end:example]
