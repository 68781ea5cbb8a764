"""Layers of strangers: made for the heads that are asked, and entered behind their projections."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as fused

from attnref.conformance import Verdict, check
from attnref.conformance.layers import make_subject
from attnref.conformance.settings import parse
from attnref.conformance.subject import CheckError

SETTINGS = {"limit": None}


class GPT(nn.Module):
    """As nanoGPT's: a config, one matrix for all three, a mask that is kept in a buffer."""

    diagonal = 1
    factor = -0.5

    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.n_head = config.n_head
        length = config.block_size
        self.register_buffer("bias", 1 - torch.triu(torch.ones(length, length), self.diagonal))

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = self.c_attn(x).split(width, dim=2)
        q, k, v = (y.view(b, n, self.n_head, -1).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.mT * q.shape[-1] ** self.factor
        scores = scores.masked_fill(self.bias[:n, :n] == 0, -math.inf)
        weights = self.attn_dropout(scores.softmax(-1))
        return self.c_proj((weights @ v).transpose(1, 2).reshape(b, n, width))


class Separate(nn.Module):
    """One matrix for each; a mask that forbids; heads are split last."""

    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.fc = nn.Linear(d_model, d_model)
        self.heads, self.dropout = n_heads, nn.Dropout(dropout)

    def forward(self, x, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)
            for f in (self.W_q, self.W_k, self.W_v)
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        output = self.dropout(scores.softmax(-1)) @ v
        return self.fc(output.permute(0, 2, 3, 1).flatten(2)), scores


class ViT(nn.Module):
    """As timm's, with a norm before and a residual."""

    axis = -1

    def __init__(self, dim: int, num_heads: int = 8, qkv_bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def train(self, mode=True):
        super().train(mode)  # as some layers of timm have it, which return nothing

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(self.norm(x)).reshape(b, n, 3, self.num_heads, c // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q * q.shape[-1] ** -0.5 @ k.mT
        weights = scores.softmax(self.axis)
        return x + self.proj((weights @ v).transpose(1, 2).reshape(b, n, c))


class ByHead(ViT):
    """As Megatron's: for each head its query, key and value, length first, flattened before."""

    def forward(self, x):
        n, b, c = x.shape
        qkv = self.qkv(x.reshape(n * b, c)).view(n, b, self.num_heads, -1)
        q, k, v = (y.permute(1, 2, 0, 3) for y in qkv.chunk(3, dim=-1))
        return self.proj(fused(k, q, v).permute(2, 0, 1, 3).reshape(n, b, c))


class Lucid(nn.Module):
    """As lucidrains': a context, a width of heads that is not the sequence's."""

    def __init__(self, dim, *, heads=8, dim_head=64, **_):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * dim_head, bias=False)
        self.to_out = nn.Sequential(nn.Linear(heads * dim_head, dim), nn.Dropout(0.1))

    def forward(self, x, context=None, *, attn_mask=None, is_causal=False):
        q, (k, v) = self.to_q(x), self.to_kv(x if context is None else context).chunk(2, dim=-1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v))
        output = fused(q, k, v, attn_mask, is_causal=is_causal)
        return self.to_out(output.transpose(1, 2).flatten(2))


class Shared(nn.Module):
    """As Llama's: heads that share their keys, and a rotation that is given."""

    tiles = False

    def __init__(self, dim, n_heads, n_kv_heads=None, head_dim=None):
        super().__init__()
        self.heads, self.kv = n_heads, n_kv_heads or n_heads
        width = head_dim or dim // n_heads
        self.wq, self.wo = nn.Linear(dim, n_heads * width), nn.Linear(n_heads * width, dim)
        self.wk, self.wv = (nn.Linear(dim, self.kv * width) for _ in range(2))

    def forward(self, x, start_pos, freqs_cis, mask):
        q, k, v = (f(x) for f in (self.wq, self.wk, self.wv))
        q = q.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q = torch.view_as_real(torch.view_as_complex(q.unflatten(-1, (-1, 2)).float()) * freqs_cis)
        q = q.flatten(-2).to(x.dtype)
        k, v = (y.unflatten(-1, (self.kv, -1)).transpose(1, 2) for y in (k, v))
        times = self.heads // self.kv
        if self.tiles:
            k, v = (y.repeat(1, times, 1, 1) for y in (k, v))
        else:
            k, v = (y.repeat_interleave(times, 1) for y in (k, v))
        return self.wo(fused(q, k, v, mask).transpose(1, 2).flatten(2))


class Multi(nn.Module):
    """As the annotated Transformer's: four matrices without names, and each input for itself."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.linears[-1]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class LengthFirst(nn.Module):
    """As labml's: axes (n, b, width) and masks (n, m, b), and einsum throughout."""

    def __init__(self, heads, d_model):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))
        self.output, self.heads = nn.Linear(d_model, d_model), heads

    def forward(self, *, query, key, value, mask=None):
        inputs = ((self.query, query), (self.key, key), (self.value, value))
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)) for f, x in inputs)
        scores = torch.einsum("ibhd,jbhd->ijbh", q, k) / math.sqrt(q.shape[-1])
        if mask is not None:
            assert mask.shape in ((len(q), len(k), q.shape[1]), (len(q), len(k), 1))
            scores = scores.masked_fill(mask[..., None] == 0, -math.inf)
        context = torch.einsum("ijbh,jbhd->ibhd", scores.softmax(1), v)
        return self.output(context.flatten(2))


class Head(nn.Module):
    """One head alone, as courses begin."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))

    def forward(self, x):
        k, q, v = self.key(x), self.query(x), self.value(x)
        return torch.softmax(q @ k.mT / k.shape[-1] ** 0.5, -1) @ v


class Bare(nn.Module):
    """No projections: what a function would do."""

    def __init__(self, temperature, d_k):
        super().__init__()
        self.temperature = temperature * d_k**0.5

    def forward(self, q, k, v, mask=None):
        scores = q @ k.transpose(2, 3) / self.temperature
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1) @ v, scores


class Crossing(Lucid):
    """It does not do without a second sequence."""

    def forward(self, x_q, x_kv):
        return super().forward(x_q, x_kv)


class Added(ViT):
    """As BERT's: it does not do without a mask, which it adds."""

    def forward(self, hidden_states, attention_mask):
        b, n, c = hidden_states.shape
        q, k, v = self.qkv(hidden_states).view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT * q.shape[-1] ** -0.5 + attention_mask).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, c))


class Forbidding(Added):
    """Nor does this one, and what it is given says what is hidden."""

    def forward(self, hidden_states, attention_mask):
        hidden = torch.zeros(attention_mask.shape).masked_fill(attention_mask, -math.inf)
        return super().forward(hidden_states, hidden)


class Parameters(nn.Module):
    """Its matrices are parameters, stacked, and its inputs come apart, length first."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.randn(3 * dim))
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value):
        parts = zip(self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3), strict=True)
        q, k, v = (
            nn.functional.linear(x, *part).unflatten(-1, (self.heads, -1)).permute(1, 2, 0, 3)
            for x, part in zip((query, key, value), parts, strict=True)
        )
        weight, bias = self.out_proj.weight, self.out_proj.bias
        return nn.functional.linear(fused(q, k, v).permute(2, 0, 1, 3).flatten(2), weight, bias)


class Normed(Lucid):
    """As lucidrains' again: a normalisation follows the matrix of the output."""

    def __init__(self, dim, *, heads=8, dim_head=64):
        super().__init__(dim, heads=heads, dim_head=dim_head)
        self.to_out = nn.Sequential(self.to_out[0], nn.LayerNorm(dim))


@dataclass
class Config:
    n_embd: int = 768
    n_head: int = 12
    bias: bool = True
    dropout: float = 0.1
    block_size: int = 1024


class Sized(Separate):
    """It calls its width as nobody else does, and takes an object or None."""

    def __init__(self, size: int, n_heads: int, biases: tuple[int, ...] | None, dropout: float):
        super().__init__(size, n_heads, dropout)


class Configured(GPT):
    def __init__(self, config: Config, layer_idx: int):
        super().__init__(config)


class NamedConfig:
    """It knows more than a width and heads, and is found by its name alone."""

    def __init__(self, n_embd=768, n_head=12, scale_scores=True, block_size=256, bias=True):
        self.n_embd, self.n_head, self.block_size, self.bias = n_embd, n_head, block_size, bias
        self.dropout, self.scale_scores = 0.0, scale_scores


class NamedAttention(GPT):
    """As GPT-2's in Transformers, whose constructor says nothing of its config's class."""

    def __init__(self, config, layer_idx=None):
        assert config.scale_scores
        super().__init__(config)


class UnnamedAttention(GPT):
    def __init__(self, config):
        self.known_to_nobody = config.known_to_nobody
        super().__init__(config)


def make(width, heads):
    return GPT(Config(width, heads))


GPTS = "c_attn gives (q, k, v), c_proj is passed through; always causal"
BLOCK = {"block_size": 256, "bias": False}
MASK = "mask is attn_mask, True"
SEPARATE = f"W_q gives q, W_k gives k, W_v gives v, fc is passed through; {MASK} = forbidden"
OF_TWO = "to_q gives q, to_kv gives (k, v), to_out is passed through"
LUCID = f"{OF_TWO}; attn_mask is attn_mask, True = may attend"
LLAMA = f"wq gives q, wk gives k, wv gives v, wo is passed through; {MASK} = may attend"
UNNAMED = "linears.0 gives q, linears.1 gives k, linears.2 gives v, linears.3 is passed through"
QKV = "qkv gives (q, k, v), proj is passed through"
BY_HEAD = "qkv gives (k, q, v) as (h, 3, d), proj is passed through, axes (n, b, h·d)"
LENGTHS = "query gives q, key gives k, value gives v, output is passed through, axes (n, b, h·d)"
RIGHT = [
    (GPT, BLOCK, GPTS),
    (make, {}, GPTS),
    (Configured, {"block_size": 512}, GPTS),
    (NamedAttention, {}, GPTS),
    (Separate, {}, SEPARATE),
    (ViT, {}, QKV),
    (ByHead, {}, BY_HEAD),
    (Lucid, {}, LUCID),
    (Shared, {"start_pos": 0}, LLAMA),
    (Multi, {}, f"{UNNAMED}; {MASK} = may attend"),
    (Sized, {}, SEPARATE),
    (Crossing, {}, OF_TWO),
    (Added, {}, f"{QKV}; attention_mask is attn_mask, added to the scores"),
    (Forbidding, {}, f"{QKV}; attention_mask is attn_mask, True = forbidden"),
    (Parameters, {}, "its projections are the identity, axes (n, b, h·d)"),
    (Normed, {}, LUCID),
    (LengthFirst, {}, f"{LENGTHS}; {MASK} = may attend, (n, m, b)"),
    (Head, {}, "key gives k, query gives q, value gives v; axes (b·h, n, d)"),
    (Bare, {"temperature": 1.0}, f"{MASK} = may attend"),
]


@pytest.mark.claim("checker-raises-no-false-alarm")
@pytest.mark.parametrize(
    ("layer", "arguments", "said"), RIGHT, ids=[each[0].__name__ for each in RIGHT]
)
def test_a_right_layer_is_read_and_nothing_is_wrong(layer, arguments, said, seeds):
    for seed in seeds(1, 3):
        report = check(layer, arguments=arguments, seed=seed, **SETTINGS)
        assert report.read_as("en") == ("" if layer is Bare else "a layer: ") + said
        assert report.passed(), f"seed {seed}\n{report.text()}"
        assert report.function == layer.__name__
        if layer is GPT:
            in_portuguese = "uma camada: c_attn dá (q, k, v), c_proj só deixa passar; sempre causal"
            assert report.read_as("pt") == in_portuguese


class Leaking(GPT):
    diagonal = 2


class Unscaled(GPT):
    factor = 0.0


class WrongAxis(ViT):
    axis = -2


class Careless(Lucid):
    """The past of a query leaves out itself."""

    def forward(self, x, context=None, *, is_causal=False):
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril(-1 if is_causal else n)
        return super().forward(x, context, attn_mask=mask)


class Dropping(Lucid):
    """In evaluation mode, too."""

    def forward(self, x, context=None):
        return torch.dropout(super().forward(x, context), 0.1, True)


class Tiling(Shared):
    tiles = True


class Namespaced(Separate):
    """Its config may hold numbers that it does not look at."""

    def __init__(self, config):
        super().__init__(config.d_model, config.n_heads, config.dropout)


def test_a_wrong_layer_is_not_read_as_a_right_one(subtests):
    for layer, arguments, fault in (
        (Leaking, BLOCK, "oracle"),
        (Unscaled, BLOCK, "scale"),
        (WrongAxis, {}, "row_sums"),
        (Careless, {}, "own_token"),
        (Dropping, {}, "determinism"),
    ):
        with subtests.test(layer.__name__):
            assert check(layer, arguments=arguments, only=[fault], **SETTINGS).failures


def test_a_layer_that_is_said_to_be_causal_and_leaks_is_told_so():
    report = check(Leaking, arguments=BLOCK, always_causal=True, **SETTINGS)
    assert "causality" in [each.property for each in report.failures if not each.follows]


def test_heads_that_share_their_keys_are_asked():
    only = ["grouped_queries"]
    (shared,) = check(Shared, arguments={"start_pos": 0}, only=only, **SETTINGS).results
    (tiled,) = check(Tiling, arguments={"start_pos": 0}, only=only, **SETTINGS).results
    assert (shared.verdict, tiled.verdict) == (Verdict.PASS, Verdict.CONVENTION)
    for layer, arguments in ((GPT, BLOCK), (Namespaced, {})):
        (none,) = check(layer, arguments=arguments, only=only, **SETTINGS).results
        assert none.verdict is Verdict.NOT_CLAIMED


def test_other_shapes_than_it_has_are_declined():
    only = ["rectangular", "value_width", "alignment"]
    for result in check(ViT, only=only, **SETTINGS).results:
        assert result.verdict is Verdict.NOT_CLAIMED
    found = {each.property: each for each in check(Lucid, only=only, **SETTINGS).results}
    assert found["rectangular"].verdict is Verdict.PASS
    assert found["value_width"].diagnosis() == (
        "It declines with a clear error: ValueError: value: expected the width of the keys, 8, "
        "got 13"
    )
    attend = make_subject(ViT).function
    query, key = torch.randn(2, 6, 5, 8), torch.randn(2, 3, 5, 8)
    with pytest.raises(ValueError, match="key: expected 6 heads, as the layer makes them, got 3"):
        attend(query, key, key)
    with pytest.raises(ValueError, match=r"query: expected the axes \(b, n, d\), got \(2, 6, 5, 8"):
        make_subject(Head).function(query, query, query)
    with pytest.raises(TypeError, match="unexpected keyword argument 'attn_mask'"):
        attend(query, query, query, attn_mask=None)


class Even(ViT):
    def __init__(self, dim: "Nowhere", num_heads):  # noqa: F821
        if dim // num_heads % 2:
            raise AssertionError("an even width")
        super().__init__(dim, num_heads)


class Pair(nn.Module):
    """Query and key out of one matrix."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.to_qk, self.to_v = heads, nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = torch.cat([self.to_qk(x), self.to_v(x)], -1).chunk(3, -1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v))
        return fused(q, k, v).transpose(1, 2).flatten(2)


def test_sizes_for_which_it_is_not_made_are_declined():
    assert check(Even, only=["oracle"], **SETTINGS).passed()


def test_a_matrix_for_query_and_key_is_found():
    report = check(Pair, only=["oracle", "gradients"], **SETTINGS)
    assert report.read_as() == "a layer: to_qk gives (q, k), to_v gives v"
    assert report.passed()


class Pooling(ViT):
    def forward(self, x):
        return super().forward(x).mean(1)


def test_what_returns_another_shape_is_told_so():
    report = check(Pooling, **SETTINGS)
    assert [each.property for each in report.failures if not each.follows] == ["shape"]


def test_functions_and_instances_are_asked_as_before():
    masked = "mask is attn_mask, True = may attend"
    for function, read in (
        (fused, ""),
        (attention, ""),
        (Bare(1.0, 8), f"{masked}; one factor for all widths, 0.354"),
    ):
        report = check(function, only=["oracle"], layout="bhnd", **SETTINGS)
        assert report.read_as() == read


def test_the_layer_of_pytorch_ignores_is_causal_beside_a_mask():
    report = check(nn.MultiheadAttention, **SETTINGS)
    assert report.read_as() == (
        "a layer: its projections are the identity, axes (n, b, h·d); attn_mask is attn_mask, "
        "True = forbidden; key_padding_mask not tested"
    )
    assert report.read_as("pt").startswith("uma camada: suas projeções são a identidade, eixos")
    assert [each.property for each in report.failures] == ["mask_with_causal", "silent_arguments"]
    first = check(nn.MultiheadAttention, arguments={"batch_first": True}, only=["oracle"])
    assert first.read_as().startswith("a layer: its projections are the identity; attn_mask is")
    assert first.passed()


class Biased(ViT):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.gate = Gate()
        self.table = nn.Parameter(torch.randn(num_heads, 1, 1))
        self.unused = nn.Parameter(torch.zeros(3))
        self.register_buffer("slopes", torch.arange(3.0))

    def forward(self, x):
        return super().forward(x) * self.table.sum()


class Gate(nn.Module):
    pass


class Perceptron(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.down(self.up(x))


class Weights(ViT):
    """It multiplies by the matrix without calling its module."""

    def forward(self, x):
        return self.proj(x @ self.qkv.weight.T[:, : x.shape[-1]])


class Folding(ViT):
    """It needs what its own projection returns."""

    def forward(self, x):
        projected = self.qkv(x)
        if projected.any():
            raise ValueError("the projection was replaced")
        return self.proj(projected[..., : x.shape[-1]])


class NoProjections(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()

    def forward(self, x):
        return x


class Demanding(ViT):
    def forward(self, x, size):
        return super().forward(x)


class Spatial(ViT):
    def forward(self, x):
        _, _, _, _ = x.shape
        return x


def no_layer(width, heads):
    return width


def attention(query, key, value):
    return fused(query, key, value)


MAKES_NONE = "is neither a class of layers nor a function make(width, heads) that returns a layer. "
PROJECTIONS = "must have projections of the query, the key and the value, fused or not, and at "
REFUSED = [
    (
        Bare,
        {},
        "with: Bare needs a value for temperature. Write --with temperature",
    ),
    (
        GPT,
        {"bias": False},
        "function: GPT could not make a layer of 3 heads of 8: AttributeError: "
        "'types.SimpleNamespace' object has no attribute 'block_size'.",
    ),
    (
        GPT,
        {"bias": False},
        "no attribute 'block_size'. Supply the missing arguments, --with name=value, in ",
    ),
    (UnnamedAttention, {}, "no attribute 'known_to_nobody'. Supply the missing "),
    (Demanding, {}, "with: Demanding.forward needs a value for size. "),
    (Demanding, {}, "or wrap what it does between its projections in a function of query, key "),
    (
        ViT,
        {"qkv_bais": True},
        "with: 'qkv_bais' is not a parameter of ViT or of its forward.",
    ),
    (attention, {"heads": 3}, f"with: attention {MAKES_NONE}Leave this"),
    (no_layer, {"heads": 3}, f"with: no_layer {MAKES_NONE}Leave this"),
    (Perceptron, {}, f"function: Perceptron, made for 3 heads of 8, {PROJECTIONS}most one"),
    (
        Perceptron,
        {},
        "but it has up (96, 24), down (24, 96). Wrap what it does between its projections in",
    ),
    # Its matrix is not called.
    (Weights, {}, f"function: Weights, made for 3 heads of 8, {PROJECTIONS}most one o"),
    (Folding, {"qkv_bias": False}, f"function: Folding was read so: {QKV}; but then it fails: V"),
    (
        NoProjections,
        {},
        "function: NoProjections has no projections, and its forward does "
        "not take query, key and value but x.",
    ),
    (
        NoProjections,
        {},
        "query, key and value but x. Wrap what it does between its p",
    ),
    (
        Spatial,
        {},
        "function: Spatial does not take a sequence of shape (2, 7, 24): ValueError",
    ),
    (
        Spatial,
        {},
        "to unpack (expected 4, got 3). Supply the missing arguments, --with name=value, in Python",
    ),
]


def test_what_cannot_be_made_transparent_is_refused(subtests):
    for layer, arguments, said in REFUSED:
        with subtests.test(said):
            with pytest.raises(CheckError) as raised:
                check(layer, arguments=arguments, **SETTINGS)
            assert said in str(raised.value)


def test_more_than_attention_is_judged_as_a_whole():
    report = check(Biased, **SETTINGS)
    assert report.read_as() == (
        "a layer: judged as a whole, for besides its projections its output depends on gate "
        "(Gate), slopes (3,), table (3, 1, 1)"
    )
    assert report.passed()


def test_what_is_no_literal_is_refused():
    for pair in ("block_size", "block_size=many", "=3", "a b=3"):
        with pytest.raises(CheckError) as raised:
            parse({"arguments": [pair]})
        assert str(raised.value) == (
            f"with: {pair!r} is not name=value, with a value as Python writes it. Write for "
            "example block_size=256."
        )


MODULE = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, dim, heads, *, causal):
        super().__init__()
        self.qkv, self.heads, self.causal = nn.Linear(dim, 3 * dim), heads, causal

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).mT.mT.transpose(1, 2)
                   for y in self.qkv(x).chunk(3, -1))
        f = torch.nn.functional.scaled_dot_product_attention
        return f(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2)
"""


def test_the_command_asks_a_layer(attnref, monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    settings = ("--only", "oracle,causality,rectangular")
    status, out, err = attnref("check", "mine.py:Attention", "--with", "causal=True", *settings)
    assert (status, err) == (0, "")
    assert "read as: a layer: qkv gives (q, k, v); always causal" in out
    status, out, err = attnref("check", "mine.py:Attention", *settings)
    assert (status, out) == (2, "")
    assert "attnref check: with: mine.py:Attention needs a value for causal" in err
    status, _, err = attnref("check", "mine.py:Attention", "--with", "causal")
    assert (status, "is not name=value" in err) == (2, True)
