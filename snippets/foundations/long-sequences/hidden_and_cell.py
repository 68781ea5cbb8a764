"""A hidden state is not a memory cell: what recurrent layers carry on."""

# --8<-- [start:example]
import torch
from torch import nn

words = torch.ones(50, 8)  # the same word, fifty times
generator = torch.Generator().manual_seed(0)
plain, lstm = nn.RNN(8, 4), nn.LSTM(8, 4)
for parameter in [*plain.parameters(), *lstm.parameters()]:
    nn.init.uniform_(parameter, -0.5, 0.5, generator=generator)
nn.init.constant_(lstm.bias_hh_l0[4:8], 6.0)  # keep nearly everything

with torch.no_grad():
    _, hidden = plain(words)
    print("plain layer: hidden", tuple(hidden.shape))
    _, (hidden, cell) = lstm(words)
    print("LSTM: hidden", tuple(hidden.shape), "and cell", tuple(cell.shape))
print(f"largest entry of the hidden state: {hidden.abs().max():.2f}")
print(f"largest entry of the cell: {cell.abs().max():.2f}")
for gate in (0.9, 0.99, 0.999):
    print(f"kept after 50 gates of {gate}: {gate**50:.3f}")
# --8<-- [end:example]
