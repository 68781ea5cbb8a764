"""Looking a token up is multiplying a one-hot row by the table."""

# --8<-- [start:example]
import torch

vocabulary = ["a", "bank", "by", "sat", "the", "we"]
sentence = ["we", "sat", "by", "the", "bank"]
generator = torch.Generator().manual_seed(0)
table = torch.randn(len(vocabulary), 4, generator=generator)

ids = torch.tensor([vocabulary.index(token) for token in sentence])
one_hot = torch.nn.functional.one_hot(ids, len(vocabulary)).float()

print("ids    ", ids.tolist())
print("one-hot", tuple(one_hot.shape), "times table", tuple(table.shape))
print("embeddings", tuple(table[ids].shape))
print("the same:", torch.equal(one_hot @ table, table[ids]))
# --8<-- [end:example]
