"""A model of the Transformers library, given the mask and the positions of a tree of drafts."""

import pytest
import torch

from attnref import masks

transformers = pytest.importorskip("transformers", reason="the extra `test` brings it")

PARENTS = [-1, 0, 0, 1, -1, 2, 1, 5, 4]
PAST, VOCABULARY = 7, 31


def path(node):
    """From the root to the node, by walking up."""
    nodes = [node]
    while PARENTS[nodes[0]] >= 0:
        nodes.insert(0, PARENTS[nodes[0]])
    return nodes


@pytest.fixture
def llama(device):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,  # so that attention is far from uniform
        attn_implementation="sdpa",
    )
    return transformers.LlamaForCausalLM(config).to(device).double().eval()


@pytest.mark.claim("each-path-as-if-alone")
@torch.no_grad()
def test_a_llama_reads_all_paths_in_one_pass(llama, device, generator):
    """Its logits at each node are those of the path alone; places instead of depths change them."""
    text = torch.randint(VOCABULARY, (1, PAST), device=device, generator=generator)
    drafts = torch.randint(VOCABULARY, (1, len(PARENTS)), device=device, generator=generator)
    allowed = masks.tree(PARENTS, past=PAST).dense(device)[None, None]
    added = torch.zeros(allowed.shape, dtype=torch.float64, device=device)
    depths = masks.tree(PARENTS).dense(device).sum(-1) - 1

    def logits(positions):
        cache = llama(text, use_cache=True).past_key_values
        return llama(
            drafts,
            attention_mask=added.masked_fill(~allowed, -torch.inf),
            position_ids=PAST + positions[None],
            past_key_values=cache,
        ).logits[0]

    alone = torch.stack(
        [llama(torch.cat([text, drafts[:, path(n)]], 1)).logits[0, -1] for n in range(len(PARENTS))]
    )
    # Equal positions have equal rotations; the rest are sums of some tens of numbers in float64.
    torch.testing.assert_close(logits(depths), alone, rtol=1e-10, atol=1e-10)
    places = torch.arange(len(PARENTS), device=device)
    assert (logits(places) - alone).abs().max() > 0.1


# The form in which Medusa writes a tree down: each node by the ranks of the tokens on its path,
# the root, which is no draft, left out; (0, 1) is the second choice after the first.
CHOICES = [(0,), (0, 0), (1,), (0, 1), (2,), (0, 0, 0), (1, 0), (0, 2), (0, 0, 1), (0, 1, 0)]


def test_a_tree_written_as_medusa_writes_it(device):
    """There a node sees those whose path begins its own, and its position is its path's length."""
    nodes = [(), *CHOICES]
    parents = [nodes.index(node[:-1]) if node else -1 for node in nodes]
    expected = [[node[: len(other)] == other for other in nodes] for node in nodes]
    mask = masks.tree(parents).dense(device)
    assert mask.tolist() == expected
    assert (mask.sum(-1) - 1).tolist() == [len(node) for node in nodes]
