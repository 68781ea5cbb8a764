"""What the page on drafts claims: what verification leaves unchanged, and what a tree is worth."""

import functools
import itertools
import math
import random
import runpy
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from attnref import KVCache, MultiHeadAttention, cost, masks
from attnref.positions import rotary

SNIPPETS = Path(__file__).parents[2] / "snippets" / "variants" / "draft-trees"


@functools.cache
def snippet(name):
    return SimpleNamespace(**runpy.run_path(str(SNIPPETS / f"{name}.py")))


# Greedy decoding ---------------------------------------------------------------------------------


VOCABULARY, WIDTH = 7, 12


class Model:
    """Two layers over an embedding, which say the likeliest next token."""

    def __init__(self, device, generator):
        options = {"generator": generator, "device": device, "dtype": torch.float64}
        self.embedding = torch.randn(VOCABULARY, WIDTH, **options)
        self.layers = [
            MultiHeadAttention(WIDTH, 2, rotate=rotary, **options) for _ in range(2)
        ]  # fmt: skip

    @torch.no_grad()
    def choices(self, tokens, caches=None, **options):
        x = self.embedding[tokens]
        for layer, cache in zip(self.layers, caches or [KVCache(), KVCache()], strict=True):
            x = x + layer(x, is_causal=True, cache=cache, **options)
        return (x @ self.embedding.T).argmax(-1).tolist()


def random_drafts(text, plain, numbers):
    """A tree below the last token: some nodes what the model will write, others anything."""
    tokens, parents, paths = [text[-1]], [-1], [[]]
    for _ in range(numbers.randrange(9)):
        parent = numbers.randrange(len(tokens))
        written = [*text, *paths[parent]]
        right = written == plain[: len(written)] and numbers.random() < 0.7
        token = plain[len(written)] if right else numbers.randrange(VOCABULARY)
        tokens.append(token)
        parents.append(parent)
        paths.append([*paths[parent], token])
    return tokens, parents


@pytest.mark.claim("greedy-drafts-change-nothing")
def test_greedy_text_is_the_same_with_any_drafts(device, generator):
    """Right, wrong and repeated drafts: what is written is what a whole pass would choose."""
    for max_length in (None, 61):
        for seed in range(5):
            numbers, model = random.Random(seed), Model(device, generator)
            prompt = [numbers.randrange(VOCABULARY) for _ in range(4)]
            plain = list(prompt)
            while len(plain) < 50:
                plain.append(model.choices(plain)[-1])  # without a cache

            text, caches = list(prompt), [KVCache(max_length), KVCache(max_length)]
            model.choices(text[:-1], caches)
            passes = 0
            while len(text) < 40:
                tokens, parents = random_drafts(text, plain, numbers)
                past = caches[0].length
                depths = masks.tree(parents).dense(device).sum(-1) - 1
                mask = masks.tree(parents, past=past)
                chosen = model.choices(tokens, caches, attn_mask=mask, positions=depths)
                path = snippet("accept").accepted(tokens, parents, chosen)
                for cache in caches:
                    cache.keep(path, after=past)
                text += [chosen[node] for node in path]
                assert text == plain[: len(text)]
                passes += 1
            assert passes < 36  # some drafts were of use


# Sampling ----------------------------------------------------------------------------------------


def shares(count, numbers):
    """A distribution over ``count`` tokens, some of which may be impossible."""
    weights = [numbers.choice([0, 1, 2, 5, 9]) for _ in range(count)]
    weights[numbers.randrange(count)] += 1
    return [Fraction(weight, sum(weights)) for weight in weights]


def written_after(p, q, count, differ, known):
    """The next token after so many drafts, and how often it is one of them.

    The drafts may differ by how they are drawn, and the rule may know it; then there are no more
    of them than tokens that q can draw.
    """
    count = min(count, sum(map(bool, q))) if differ else count
    output, accepted = [Fraction(0)] * len(p), Fraction(0)
    for drafts in itertools.product(range(len(p)), repeat=count):
        chance, before = Fraction(1), Fraction(0)
        for place, token in enumerate(drafts):
            again = differ and token in drafts[:place]
            chance *= 0 if again or before == 1 else q[token] / (1 - before)
            before += q[token] if differ else 0
        if chance:
            one, taken = snippet("sampling").verified(p, q, drafts, known)
            assert sum(one) == 1
            output = [x + chance * y for x, y in zip(output, one, strict=True)]
            accepted += chance * taken
    return output, accepted


@pytest.mark.claim("drawn-drafts-keep-the-distribution")
def test_drafts_leave_the_distribution_of_the_next_token_as_it_is():
    """Exactly, by enumeration: any p and q, and up to three drafts of one node."""
    for seed in range(20):
        numbers, size = random.Random(seed), 4
        p, q = shares(size, numbers), shares(size, numbers)
        for count, differ in itertools.product(range(4), (False, True)):
            output, accepted = written_after(p, q, count, differ, differ)
            assert output == p
            if count == 1:
                assert accepted == sum(map(min, p, q))


@pytest.mark.claim("drawn-drafts-keep-the-distribution")
def test_drafts_that_differ_need_the_distribution_that_they_are_drawn_from():
    """With q itself for the second one, two fifths become 17 of 45."""
    p, q = ([Fraction(n, 10) for n in tenths] for tenths in ((4, 3, 2, 1), (2, 2, 2, 4)))
    assert written_after(p, q, 2, True, True)[0] == p
    found = [Fraction(17, 45), Fraction(29, 90), Fraction(1, 5), Fraction(1, 10)]
    assert written_after(p, q, 2, True, False)[0] == found


@pytest.mark.claim("drawn-drafts-keep-the-distribution")
@pytest.mark.parametrize("seed", range(3))
def test_a_chain_of_drafts_leaves_the_distribution_of_the_text_as_it_is(seed):
    """Three tokens of a model whose distribution depends on all before, after two drafts."""
    numbers, size, length = random.Random(seed), 3, 3
    p, q = (
        {
            before: shares(size, numbers)
            for count in range(length)
            for before in itertools.product(range(size), repeat=count)
        }
        for _ in range(2)
    )
    written = dict.fromkeys(itertools.product(range(size), repeat=length), Fraction(0))

    def write(text, chance, first=None):
        """The rest is drawn from p, its first token from ``first`` where that is given."""
        if len(text) == length:
            written[text] += chance
            return
        for token, share in enumerate(first or p[text]):
            write((*text, token), chance * share)

    def verify(text, drafts, chance):
        if not drafts:
            write(text, chance)
            return
        token, here, small = drafts[0], p[text], q[text]
        accept = min(Fraction(1), here[token] / small[token])
        verify((*text, token), drafts[1:], chance * accept)
        if accept < 1:
            lacking = [max(a - b, Fraction(0)) for a, b in zip(here, small, strict=True)]
            write(text, chance * (1 - accept), [share / sum(lacking) for share in lacking])

    for drafts in itertools.product(range(size), repeat=2):
        chance = q[()][drafts[0]] * q[drafts[:1]][drafts[1]]
        if chance:
            verify((), drafts, chance)
    for text, chance in written.items():
        expected = Fraction(1)
        for place, token in enumerate(text):
            expected *= p[text[:place]][token]
        assert chance == expected


@pytest.mark.claim("listed-drafts-are-found")
def test_drafts_that_are_not_drawn_are_accepted_if_the_model_draws_them():
    """A draft of which the small model is certain: the rule accepts it as often as p draws it."""
    for seed in range(10):
        numbers, size = random.Random(seed), 4
        p = shares(size, numbers)
        for token in range(size):
            certain = [Fraction(int(other == token)) for other in range(size)]
            output, accepted = snippet("sampling").verified(p, certain, [token])
            assert output == p
            assert accepted == p[token]


# What a tree is worth ----------------------------------------------------------------------------


def outcomes(parents, ranks, chances):
    """Each path that can be accepted, from the root on, and how likely it is: exactly one is."""

    def below(node, chance):
        children = [other for other, parent in enumerate(parents) if parent == node]
        taken = Fraction(0)
        for child in children:
            taken += chances[ranks[child]]
            yield from ((1 + n, p) for n, p in below(child, chance * chances[ranks[child]]))
        yield 1, chance * (1 - taken)

    return below(0, Fraction(1))


def trees(nodes, ranks):
    """Every tree of so many nodes, as sets of paths, each a tuple of ranks."""
    found = {frozenset({()})}
    for _ in range(nodes - 1):
        found = {
            tree | {(*path, rank)}
            for tree in found
            for path in tree
            for rank in range(ranks)
            if (*path, rank) not in tree
        }
    return found


@pytest.mark.claim("expected-tokens-of-a-tree")
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
def test_a_tree_writes_as_many_tokens_as_its_nodes_are_likely(nodes):
    """The tokens of each outcome times its probability, for every tree of three ranks."""
    chances = [Fraction(3, 5), Fraction(1, 5), Fraction(1, 10)]
    for tree in trees(nodes, 3):
        paths = sorted(tree, key=len)
        parents = [paths.index(path[:-1]) if path else -1 for path in paths]
        ranks = [path[-1] if path else None for path in paths]
        found = list(outcomes(parents, ranks, chances))
        assert sum(chance for _, chance in found) == 1
        expected = sum(tokens * chance for tokens, chance in found)
        assert expected == sum(math.prod(chances[rank] for rank in path) for path in paths)


@pytest.mark.claim("expected-tokens-of-a-chain")
def test_a_chain_writes_a_geometric_sum():
    for nodes in (1, 2, 5, 13):
        alpha = Fraction(3, 5)
        chain = [-1, *range(nodes - 1)]
        found = outcomes(chain, [None] + [0] * (nodes - 1), [alpha])
        expected = sum(tokens * chance for tokens, chance in found)
        assert expected == (1 - alpha**nodes) / (1 - alpha)
        parents, tokens = snippet("gain").best_tree(nodes, [0.6])
        assert parents == chain
        assert tokens == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.claim("likeliest-nodes-are-the-best-tree")
@pytest.mark.parametrize(
    "chances", [(0.6, 0.15, 0.08), (0.4, 0.35, 0.2), (0.9, 0.05, 0.01), (1.0, 0.0)]
)
def test_no_tree_of_as_many_nodes_writes_more(chances):
    def tokens(tree):
        return sum(math.prod(chances[rank] for rank in path) for path in tree)

    for nodes in range(1, 7):
        parents, expected = snippet("gain").best_tree(nodes, chances)
        assert len(parents) == nodes
        assert masks.tree(parents).dense()[:, 0].all()  # a tree: no circle, all below one root
        assert parents.count(-1) == 1
        most = max(map(tokens, trees(nodes, len(chances))))
        assert expected == pytest.approx(most, rel=1e-12)


# What a pass costs -------------------------------------------------------------------------------


@pytest.mark.claim("tree-reads-the-cache-once")
def test_a_tree_does_the_operations_of_single_steps_and_reads_the_cache_once():
    """Each node is a step over its own path; queries are read beside the cache."""
    for nodes in (2, 16, 64):
        for past in (8192, 65536):
            numbers = random.Random(nodes)
            parents = [-1, *(numbers.randrange(node) for node in range(1, nodes))]
            one = {
                "d_k": 128,
                "d_v": 128,
                "num_heads": 32,
                "num_kv_heads": 8,
                "dtype": torch.bfloat16,
            }
            sizes = cost.Sizes(n=nodes, m=past + nodes, **one)
            mask = masks.tree(parents, past=past)
            together = cost.of("fused", sizes, pairs=mask.count())
            steps = [
                cost.of("fused", cost.Sizes(n=1, m=seen, **one))
                for seen in mask.dense().sum(-1).tolist()
            ]
            apart = sum(steps, cost.Cost())
            assert together.operations == apart.operations
            queries = 2 * nodes * 32 * 128
            assert together.bytes_read == sizes.cache_bytes + queries
            assert apart.bytes_read > nodes * cost.Sizes(n=1, m=past, **one).cache_bytes
            # As many operations per byte as nodes, times the heads that share a key head.
            assert together.intensity == pytest.approx(nodes * 32 / 8, rel=0.06)
