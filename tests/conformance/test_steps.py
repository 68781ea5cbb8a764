"""Decoding steps with a cache: right ones of several kinds pass, and each fault is named."""

import math

import pytest
import torch
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as fused

from attnref import KVCache, scaled_dot_product_attention
from attnref.conformance import Verdict, check, check_steps
from attnref.conformance.case import Case, Sizes
from attnref.conformance.loading import load, load_beside
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES, steps
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.right import RIGHT as RIGHT_ONE
from attnref.conformance.step import right_step
from attnref.conformance.subject import CheckError
from attnref.conformance.trial import Raised, Trial
from attnref.masks import causal


def attend(query, key, value, offset=None):
    """Each query sees ``offset`` keys before it, by default all that are there."""
    n, m = query.shape[-2], key.shape[-2]
    offset = m - n if offset is None else offset
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    future = torch.ones(n, m, dtype=torch.bool).triu(offset + 1)
    return scores.masked_fill(future, -math.inf).softmax(-1) @ value


def joined(cache, key, value):
    held = cache or (key[..., :0, :], value[..., :0, :])
    return tuple(torch.cat(pair, -2) for pair in zip(held, (key, value), strict=True))


def concatenating(query, key, value, cache):
    cache = joined(cache, key, value)
    return attend(query, *cache), cache


def of_attnref(query, key, value, cache):
    key, value = cache.append(key, value)
    mask = causal(query.shape[-2], key.shape[-2], alignment="bottom-right")
    return scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)


def preallocated():
    return KVCache(max_length=2048)


def buffers(batch, heads, max_len, head_dim, dtype, device):
    empty = torch.zeros(batch, heads, max_len, head_dim, dtype=dtype, device=device)
    return {"key": empty, "value": empty.clone(), "length": 0}


def in_buffers(query, key, value, past):
    start, stop = past["length"], past["length"] + key.shape[-2]
    if stop > past["key"].shape[-2]:
        raise ValueError(f"past: expected room for {stop} positions")
    past["key"][..., start:stop, :] = key
    past["value"][..., start:stop, :] = value
    past["length"] = stop
    return attend(query, past["key"][..., :stop, :], past["value"][..., :stop, :])


def small():
    return [torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 8, 8), 0]


class Buffers:
    """A layer's cache with room for 100 positions, which it says."""

    def __init__(self):
        self.kept, self.length = None, 0

    def update(self, key, value):
        if self.kept is None:
            self.kept = [x.new_zeros(*x.shape[:2], 100, x.shape[-1]) for x in (key, value)]
        start, self.length = self.length, self.length + key.shape[-2]
        for room, new in zip(self.kept, (key, value), strict=True):
            room.narrow(-2, start, new.shape[-2]).copy_(new)
        return [room[..., : self.length, :] for room in self.kept]


def as_models_do(q, k, v, attn_mask=None, past_key_value=None, scale=None, enable_gqa=False):
    """As models do: output, weights, cache."""
    k, v = past_key_value.update(k, v)
    n, m = q.shape[-2], k.shape[-2]
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores.masked_fill(torch.ones(n, m, dtype=torch.bool).triu(m - n + 1), -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ v, weights, past_key_value


def with_weights(query, key, value, cache):
    cache = joined(cache, key, value)
    return attend(query, *cache), torch.zeros(1), cache


def heads_third(query, key, value, state):
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    output, state = concatenating(query, key, value, state)
    return output.transpose(1, 2), state


def heads_in_batch(query, key, value, cache):
    batch, n, d = query.shape
    cache = joined(cache, key.view(batch, n, d), value)
    return attend(query, *cache), cache


def flagged(query, key, value, cache, is_causal=False):
    key, value = joined(cache, key, value)
    n, m = query.shape[-2], key.shape[-2]
    mask = torch.ones(n, m, dtype=torch.bool).tril(m - n) if is_causal else None
    return fused(query, key, value, mask), (key, value)


def one_by_one(query, key, value, cache):
    if query.shape[-2] != 1:
        raise ValueError("query: expected one position")
    return concatenating(query, key, value, cache)


def listed_cache(query, key, value, cache):
    """A list that starts empty, and grows by a pair a step."""
    cache.append((key.clone(), value.clone()))
    return attend(query, *(torch.cat(parts, -2) for parts in zip(*cache, strict=True))), cache


class Stacked(torch.nn.Module):
    """A module, and one tensor for keys and values."""

    def forward(self, query, key, value, kv_cache=None):
        new = torch.stack([key, value])
        kept = new if kv_cache is None else torch.cat([kv_cache, new], -2)
        return attend(query, *kept), kept


def of_rooms(batch, heads, max_len, head_dim, dtype, device):
    empty = torch.zeros(batch, heads, max_len, head_dim, dtype=dtype, device=device)
    return empty, empty.clone()


def of_rooms_heads_third(batch, heads, max_len, head_dim, dtype, device):
    return tuple(
        x.transpose(1, 2) for x in of_rooms(batch, heads, max_len, head_dim, dtype, device)
    )


def told_positions(q, k, v, kv_cache, input_pos):
    """As compiled decoders do: fixed buffers, and a mask by the positions."""
    keys, values = kv_cache
    keys[:, :, input_pos], values[:, :, input_pos] = k, v
    m = keys.shape[-2]
    seen = torch.arange(m) <= input_pos[:, None]
    return fused(q, keys, values, seen)


def told_lengths(q, k_cache, v_cache, k=None, v=None, cache_seqlens=None, causal=False):
    """As kernels for decoding do: the buffers come before the new keys, a length a sample."""
    outputs = []
    for sample, past in enumerate(cache_seqlens.tolist()):
        stop = past + k.shape[1]
        k_cache[sample, past:stop], v_cache[sample, past:stop] = k[sample], v[sample]
        held = [x[sample, :stop].transpose(0, 1) for x in (k_cache, v_cache)]
        one = attend(q[sample].transpose(0, 1), *held, offset=past if causal else stop)
        outputs.append(one.transpose(0, 1))
    return torch.stack(outputs)


def told_how_many(q, k, v, start_pos, past_key=None, past_value=None):
    held = joined(None if past_key is None else (past_key, past_value), k, v)
    assert held[0].shape[-2] == start_pos + q.shape[-2]
    return attend(q, *held), *held


def told_all(query, key, value, cache, seq_len):
    cache = joined(cache, key, value)
    assert cache[0].shape[-2] == seq_len
    return attend(query, *cache), cache


def told_of_samples(query, key, value, cache, position_ids=None):
    """Positions of each sample and new token, which are their places in its cache."""
    places = position_ids[:, None, :, None]
    held = cache or (key[..., :0, :], value[..., :0, :])
    room = max(int(position_ids.max()) + 1, held[0].shape[-2])
    cache = tuple(
        pad(old, (0, 0, 0, room - old.shape[-2])).scatter(-2, places.expand_as(new), new)
        for old, new in zip(held, (key, value), strict=True)
    )
    future = torch.arange(cache[0].shape[-2]) > position_ids[:, None, :, None]
    scores = query / math.sqrt(query.shape[-1]) @ cache[0].mT
    return scores.masked_fill(future, -math.inf).softmax(-1) @ cache[1], cache


def told_in_vain(query, key, value, cache, offset=0):
    """It counts by itself."""
    return concatenating(query, key, value, cache)


def told_and_one_by_one(query, key, value, cache, pos):
    """However it is told its position, several at once are not its way."""
    if query.shape[-2] != 1:
        raise ValueError("query: expected one new position")
    assert pos == query.new_tensor(0 if cache is None else cache[0].shape[-2])
    return concatenating(query, key, value, cache)


BEFORE = "is the number of positions before"
IN_PLACE = "; changes its cache in place"
OF_ROOMS = f"; k_cache, v_cache is cache; cache_seqlens {BEFORE}, (b,){IN_PLACE}; axes (b, n, h, d)"
RIGHT = [
    (told_positions, of_rooms, "; kv_cache is cache; input_pos is the new positions, (n,)"),
    (told_lengths, of_rooms_heads_third, OF_ROOMS),
    (told_how_many, None, f"; past_key, past_value is cache; start_pos {BEFORE}"),
    (told_all, None, "; seq_len is the number of positions, new ones included"),
    (told_of_samples, None, "; position_ids is the new positions, (b, n)"),
    (told_and_one_by_one, None, f"; pos {BEFORE}"),
    (told_in_vain, None, ""),
    (concatenating, None, ""),
    (of_attnref, KVCache, IN_PLACE),
    (in_buffers, buffers, f"; past is cache{IN_PLACE}"),
    (as_models_do, Buffers, f"; past_key_value is cache{IN_PLACE}"),
    (with_weights, None, ""),
    (heads_third, None, "; state is cache; axes (b, n, h, d)"),
    (heads_in_batch, None, "; axes (b·h, n, d)"),
    (flagged, None, ""),
    (one_by_one, None, ""),
    (listed_cache, list, IN_PLACE),
    (Stacked(), None, "; kv_cache is cache"),
    # The same step as of_attnref, asked again below about what its buffers change.
    pytest.param(of_attnref, preallocated, IN_PLACE, marks=pytest.mark.audit),
]


def verdicts(report):
    return {each.property: each.verdict for each in report.results}


@pytest.mark.parametrize(("step", "cache", "read"), RIGHT)
def test_a_right_step_is_read_as_what_it_is_and_nothing_is_wrong(step, cache, read, seeds):
    for seed in seeds(1, 5):
        only = [name for name in STEP_PROPERTIES if seed == 0 or name != "long_caches"]
        report = check_steps(step, cache=cache, limit=None, seed=seed, only=only)
        assert report.read_as() == f"a decoding step with a cache{read}"
        assert report.passed(), f"seed {seed}\n{report.text()}"
        assert not [each for each in report.results if "{" in each.diagnosis("pt")]


@pytest.mark.audit
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_nothing_is_wrong_in_other_dtypes(dtype):
    for step, cache in ((concatenating, None), (of_attnref, KVCache)):
        report = check_steps(step, cache=cache, limit=None, dtype=dtype)
        assert report.passed(), report.text()


def test_what_is_a_convention_and_what_is_not_claimed():
    kinds = {
        (concatenating, None): {"pieces": "PASS", "cache_unchanged": "PASS"},
        (of_attnref, KVCache): {
            "cache_unchanged": "CONVENTION",
            "grouped_queries": "PASS",
            "cache_owns": "PASS",
            "step_gradients": "PASS",
        },
        (of_attnref, preallocated): {"step_gradients": "NOT_CLAIMED", "long_caches": "PASS"},
        (in_buffers, buffers): {"long_caches": "PASS", "step_gradients": "NOT_CLAIMED"},
        (as_models_do, Buffers): {
            "long_caches": "NOT_CLAIMED",
            "mask_polarity": "PASS",
            "scale": "PASS",
            "grouped_queries": "PASS",
        },
        (flagged, None): {"pieces": "PASS"},
        (one_by_one, None): {"pieces": "NOT_CLAIMED", "cache_owns": "PASS"},
    }
    for (step, cache), expected in kinds.items():
        report = check_steps(step, cache=cache, limit=None, only=list(expected))
        found = {name: verdict.name for name, verdict in verdicts(report).items()}
        assert found == expected, report.text()


def seeing(answer, kept=lambda cache: cache, held=lambda cache: cache):
    """What answers from another part of its cache, or keeps another one."""

    def step(query, key, value, cache):
        cache = held(joined(cache, key, value))
        return answer(query, *cache), kept(cache)

    return step


def several(query):
    return query.shape[-2] > 1


def off_by(count):
    """Pieces behind others see so many keys too many."""

    def answer(query, key, value):
        past = key.shape[-2] - query.shape[-2]
        off = several(query) and (past or count > 0)
        return attend(query, key, value, offset=past + count if off else None)

    return seeing(answer)


def first_dropped(length):
    """One key a step, where there are more."""
    return seeing(
        attend, held=lambda cache: tuple(x[..., int(x.shape[-2] > length) :, :] for x in cache)
    )


def piece_alone(query, key, value):
    n = query.shape[-2]
    return attend(query, *(x[..., -n:, :] if n > 1 else x for x in (key, value)))


def detached(cache):
    return tuple(x.detach() for x in cache)


top_left = seeing(lambda q, k, v: attend(q, k, v, offset=0 if several(q) else None))


def one_too_late(query, key, value, kv_cache, pos):
    """The new key goes where the next one belongs."""
    keys, values = kv_cache
    stop = pos + 1 + query.shape[-2]
    keys[:, :, pos + 1 : stop], values[:, :, pos + 1 : stop] = key, value
    return attend(query, keys[:, :, :stop], values[:, :, :stop])


def newest_missing(query, key, value, cache):
    output = attend(query, *(cache or (key, value)), offset=10**6)
    return output, joined(cache, key, value)


def overwritten(query, key, value, cache):
    seen = joined(cache, key, value)
    return attend(query, *seen), (key, value)


def returned_unchanged(query, key, value, cache):
    seen = joined(cache, key, value)
    return attend(query, *seen), cache or (key.clone(), value.clone())


def ring(query, key, value, past):
    room = past["key"].shape[-2]
    for position in range(key.shape[-2]):
        place = (past["length"] + position) % room
        past["key"][..., place, :] = key[..., position, :]
        past["value"][..., place, :] = value[..., position, :]
    past["length"] += key.shape[-2]
    stop = min(past["length"], room)
    return attend(query, past["key"][..., :stop, :], past["value"][..., :stop, :]), past


def ring_of_100(batch, heads, head_dim, dtype, device):
    return buffers(batch, heads, 100, head_dim, dtype, device)


def mixing_batch(query, key, value, cache):
    held = cache and tuple(x.roll(1, 0) for x in cache)
    cache = joined(held, key, value)
    return attend(query, *cache), cache


HELD = {}


def remembering(query, key, value, cache):
    HELD["cache"] = joined(None if cache is None else HELD["cache"], key, value)
    return attend(query, *HELD["cache"]), True


ONE = KVCache()


def aliased(query, key, value, cache):
    cache = [*(cache or []), (key, value)]
    return attend(query, *(torch.cat(parts, -2) for parts in zip(*cache, strict=True))), cache


def aliased_at_first(query, key, value, cache):
    if cache is not None:
        key, value = joined(cache, key, value)
    return attend(query, key, value), (key, value)


def for_inference(query, key, value, cache):
    held = joined(cache, key.detach(), value.detach())
    return attend(query.detach(), *held), held


def joined_in_another_order(query, key, value):
    """The blocks of a longer cache."""
    return attend(query, key, value.roll(1, -2) if key.shape[-2] > 128 else value)


def half_detached(query, key, value, cache):
    held = joined(cache, key, value)
    return attend(query, held[0].detach(), held[1]) + 0 * key.sum(), held


def in_a_window(query, key, value, cache, window=4):
    cache = tuple(x[..., -window:, :] for x in joined(cache, key, value))
    return attend(query, *cache), cache


def seeing_a_few(query, key, value, cache=None, window=4):
    cache = joined(cache, key, value)
    n, m = query.shape[-2], cache[0].shape[-2]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n).triu(m - n - window + 1)
    return fused(query, *cache, seen), cache


def seeing_few_and_scaled(query, key, value, cache=None, window=4):
    return seeing_a_few(query * 8**-0.5, key, value, cache, window)


def in_slots(batch, heads, head_dim, dtype, device):
    return buffers(batch, heads, 48, head_dim, dtype, device)


def sliding(query, key, value, past, sliding_window=48):
    """Fixed slots; when all are taken, the oldest makes room."""
    outputs = []
    for t in range(query.shape[-2]):
        length = past["length"]
        if length == sliding_window:
            past["key"], past["value"] = (past[name].roll(-1, -2) for name in ("key", "value"))
            length -= 1
        for name, new in (("key", key), ("value", value)):
            past[name][..., length, :] = new[..., t, :]
        past["length"] = length + 1
        held = [past[name][..., : length + 1, :] for name in ("key", "value")]
        outputs.append(attend(query[..., t : t + 1, :], *held))
    return torch.cat(outputs, -2), past


def delta_rule(query, key, value, state=None):
    if state is None:
        state = query.new_zeros(*query.shape[:2], query.shape[-1], value.shape[-1])
    outputs = []
    for t in range(query.shape[-2]):
        q, k, v = (x[..., t : t + 1, :] for x in (query, key, value))
        state = 0.9 * state
        state = state + 0.5 * k.mT @ (v - k @ state)
        outputs.append(q * query.shape[-1] ** -0.5 @ state)
    return torch.cat(outputs, -2), state


OWN = "its own window: query i sees the keys from i - {} to i"
OF_THEIR_OWN = {
    "window": (seeing_a_few, None, OWN.format(3)),
    "static": (sliding, in_slots, OWN.format(47)),
    "delta rule": (delta_rule, None, "a recurrence"),
}


@pytest.mark.parametrize(("step", "cache", "read"), OF_THEIR_OWN.values(), ids=OF_THEIR_OWN)
def test_a_right_step_of_another_formula_is_not_called_wrong(step, cache, read):
    report = check_steps(step, cache=cache, limit=None)
    assert report.passed(), report.text()
    assert read in report.read_as("en")
    assert verdicts(report)["pieces"] is Verdict.PASS


def test_a_wrong_step_with_a_window_is_still_found():
    report = check_steps(seeing_few_and_scaled, limit=None, only=["scale", "oracle"])
    assert [each.property for each in report.causes] == ["scale"]


MUTANTS = [
    # Even a single query is taken for the first one.
    (seeing(lambda q, k, v: attend(q, k, v, offset=0)), None, "past_kept", steps.FIRST_ALONE),
    (top_left, None, "pieces", steps.TOP_LEFT),
    (seeing(fused), None, "pieces", steps.UNMASKED),
    (off_by(1), None, "pieces", steps.ONE_MORE),
    (off_by(-1), None, "pieces", steps.ONE_FEWER),
    (seeing(piece_alone), None, "pieces", steps.PIECE_ALONE),
    (seeing(lambda q, k, v: attend(q, k, v) * (1.0 + several(q))), None, "pieces", steps.CUT),
    (newest_missing, None, "past_kept", steps.NEWEST),
    (overwritten, None, "past_kept", steps.LOST),
    (returned_unchanged, None, "past_kept", steps.LOST),
    (first_dropped(64), None, "long_caches", steps.FORGETS),
    (first_dropped(256), None, "long_caches", steps.FORGETS),
    (seeing(joined_in_another_order), None, "long_caches", steps.LONG),
    # More at once than there is room for: the first of them see nothing, and that is NaN.
    (ring, ring_of_100, "pieces", steps.UNFIT),
    (mixing_batch, None, "batch_independence", None),
    (remembering, None, "sequences_apart", steps.SHARED_CACHE),
    (aliased, None, "cache_owns", steps.ALIASED),
    (aliased_at_first, None, "cache_owns", steps.ALIASED),
    (half_detached, None, "step_gradients", steps.GRADIENT),
    (seeing(attend, kept=detached), None, "step_gradients", steps.CUT_OFF),
    (for_inference, None, "step_gradients", steps.WITHOUT),
    (one_by_one, None, "pieces", steps.UNCUT),
    (as_models_do, Buffers, "long_caches", steps.FULL),
    (of_attnref, KVCache, "cache_unchanged", steps.CHANGES),
]
LEVELS = {
    steps.ALIASED: Verdict.UNSAFE,
    steps.CUT_OFF: Verdict.CONVENTION,
    steps.CHANGES: Verdict.CONVENTION,
    steps.WITHOUT: Verdict.NOT_CLAIMED,
    steps.UNCUT: Verdict.NOT_CLAIMED,
    steps.UNFIT: Verdict.NOT_CLAIMED,
    steps.FULL: Verdict.NOT_CLAIMED,
}


@pytest.mark.parametrize(("step", "cache", "name", "text"), MUTANTS)
def test_each_fault_is_found_by_its_property_and_named(step, cache, name, text):
    report = check_steps(step, cache=cache, limit=None, only=[name])
    (result,) = report.results
    assert result.verdict is LEVELS.get(text, Verdict.WRONG), report.text()
    if text is not None:
        found = result.finding.values.get("how", result.finding.text)
        # What PyTorch's own function would do too is said behind it.
        assert found == text, report.text()
    assert "{" not in result.diagnosis("pt")


def test_the_fault_to_fix_comes_first():
    for step, first in ((overwritten, "past_kept"), (returned_unchanged, "past_kept")):
        report = check_steps(step, limit=None)
        causes = [each.property for each in report.failures if not each.follows]
        assert causes == [first], report.text()
    report = check_steps(top_left, limit=None)
    assert [each.property for each in report.failures] == ["pieces"]


def test_one_cache_for_all_is_found():
    report = check_steps(of_attnref, cache=lambda: ONE, limit=None, only=["oracle"])
    assert not report.passed()


def test_how_many_keys_are_forgotten_is_said():
    report = check_steps(first_dropped(64), only=["long_caches"])
    said = report.failures[0].diagnosis("en")
    assert said.startswith("At position 64 only the last 64 of 65 keys count")


def test_a_counterexample_shows_how_the_sequence_was_cut():
    report = check_steps(top_left, limit=None, only=["pieces"])
    assert "pieces" in report.failures[0].counterexample.arguments
    assert "Fed in pieces of 1 + 2," in report.failures[0].diagnosis("en")


def test_an_output_that_does_not_fit_is_shown():
    def squeezed(query, key, value, cache):
        output, cache = concatenating(query, key, value, cache)
        return output.squeeze(-2), cache

    report = check_steps(squeezed, limit=None, only=["shape"])
    assert "It returned shape" in report.failures[0].diagnosis("en")


def test_what_changes_its_inputs_is_found():
    def scaling(query, key, value, cache):
        query *= 1.0 + 1e-6
        return concatenating(query, key, value, cache)

    report = check_steps(scaling, limit=None, only=["inputs_unchanged"])
    assert not report.passed()


def test_other_functions_are_not_asked_what_steps_are():
    own = set(STEP_PROPERTIES) - set(PROPERTIES)
    assert own == {
        *("past_kept", "pieces", "sequences_apart", "long_caches", "cache_owns"),
        *("cache_unchanged", "step_gradients", "samples_apart"),
    }
    with pytest.raises(CheckError, match="'pieces' is not the name of a property"):
        check(fused, only=["pieces"])
    with pytest.raises(CheckError, match="'rectangular' is not the name of a prop"):
        check_steps(concatenating, only=["rectangular"])


def no_cache(query, key, value, memory):
    return concatenating(query, key, value, memory)


def named(query, key, value, cache, where):
    return told_all(query, key, value, cache, where)


REFUSED = [
    (no_cache, {}, ") has no parameter for the cache of a step (cache, past_key_value, "),
    (no_cache, {}, "function: no_cache(query, key, value, memory) has no parameter for the cache "),
    (no_cache, {}, ": --map cache=memory."),
    (lambda query, key, value: fused(query, key, value), {}, "--map cache=its_name."),
    (
        no_cache,
        {"names": {"cache": "past"}},
        "map: no_cache has no parameter 'past'; it has query, key, value, memory.",
    ),
    (
        named,
        {"names": {"position": "at"}},
        "map: named has no parameter 'at'; it has query, key, value, cache, where.",
    ),
    (Buffers, {}, "function: Buffers is a class, not a function."),
    (3, {}, "function: an object of type int cannot be called. Name the function itself."),
    (lambda query, key, value, cache: value, {}, "function: expected (output, cache), got Tensor."),
    (
        lambda query, key, value, cache: (value, None),
        {},
        "expected (output, cache), got tuple. Ret",
    ),
    (lambda query, key, value, cache: value, {}, "Return the cache too; or, if a step changes "),
    (
        of_attnref,
        {},
        "function: of_attnref failed in a step with query, key and value of ",
    ),
    (
        of_attnref,
        {},
        "of shape (2, 3, 1, 8): AttributeError: 'NoneType' object has no attribute 'append' (at ",
    ),
    (
        of_attnref,
        {},
        "Fix it; if its first cache is not None, say what makes it: --cache module:factory.",
    ),
    (
        of_attnref,
        {"cache": KVCache()},
        "cache: expected a function that makes the first "
        "cache, got KVCache. Give the function itself, because each sequence needs a new cache.",
    ),
    (
        of_attnref,
        {"cache": lambda size: []},
        "cache: expected a function without arguments, or with some of "
        "batch, heads, max_len, head_dim, dtype, device, got <lambda>(size): "
        "missing a required argument: 'size'.",
    ),
    (
        of_attnref,
        {"cache": lambda size: []},
        "missing a required argument: 'size'. Give its other ",
    ),
    (told_lengths, {"cache": lambda: torch.zeros(2, 3, 8, 8)}, "cache: expected a pair of k_cache"),
]


def test_what_is_no_step_is_refused():
    for step, settings, said in REFUSED:
        with pytest.raises(CheckError) as error:
            check_steps(step, limit=None, **settings)
        assert said in str(error.value)


def test_what_a_step_calls_otherwise_can_be_said():
    report = check_steps(no_cache, names={"cache": "memory"}, limit=None)
    assert report.passed()
    assert report.read_as("pt") == "um passo de decodificação com cache; memory é cache"
    report = check_steps(named, names={"position": "where"}, limit=None, only=["oracle"])
    assert report.read_as("pt") == (
        "um passo de decodificação com cache; where é o número de posições, com as novas"
    )


def test_a_wrong_step_that_is_told_its_position_is_still_found():
    report = check_steps(one_too_late, cache=of_rooms, limit=None)
    assert report.read_as().endswith("kv_cache is cache; pos is the number of positions before")
    assert report.failures[0].property == "past_kept"


def test_a_factory_is_loaded_with_the_step(tmp_path, monkeypatch):
    path = tmp_path / "both.py"
    path.write_text("class Cache: ...\ndef step(): return Cache\n", encoding="utf-8")
    step = load(f"{path}:step")
    assert step() is load_beside(f"{path}:Cache", f"{path}:step", "cache")
    assert load_beside("attnref:KVCache", f"{path}:step", "cache") is KVCache
    with pytest.raises(CheckError, match=r"^cache: attnref has no 'nothing'"):
        load_beside("attnref:nothing", f"{path}:step", "cache")
    with pytest.raises(CheckError, match=rf"^cache: {path} has no 'nothing'"):
        load_beside(f"{path}:nothing", f"{path}:step", "cache")


@pytest.mark.parametrize("pieces", [None, (3, 4), (7,)])
def test_the_step_that_others_are_compared_with_is_right(pieces):
    case = Case.draw(Sizes(), 0)
    inputs = (case.query, case.key, case.value)
    mask = some_mask(case, (7, 7))
    bias = torch.randn(7, 7, dtype=torch.float64)
    trial = Trial(right_step(RIGHT_ONE), torch.float64, torch.device("cpu"))
    for options in ({}, {"attn_mask": mask}, {"attn_mask": bias}, {"scale": 0.3}):
        expected = trial.truth(*inputs, **options)
        output = trial.call(*inputs, pieces=pieces, **options)
        assert ((output - expected.output).abs() <= 1e-12).all()
    with pytest.raises(Raised) as raised:
        trial.call(case.query, case.key[..., :5, :], case.value[..., :5, :])
    assert str(raised.value.error) == "key: expected 7 positions, as query has, got 5"


MODULE = """
import torch

class Cache:
    def __init__(self):
        self.key = self.value = None

def step(query, key, value, cache):
    assert isinstance(cache, Cache)
    if cache.key is not None:
        key, value = torch.cat([cache.key, key], -2), torch.cat([cache.value, value], -2)
    cache.key, cache.value = key.clone(), value.clone()
    n, m = query.shape[-2], key.shape[-2]
    future = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ value

def forgetful(query, key, value, memory=None):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value), (key, value)

def alone(query, key, value, cache):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)
"""


@pytest.fixture
def run(attnref, monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    return lambda *words: attnref("check", *words)


def test_the_command_judges_a_step(run):
    only = ("--only", "oracle,pieces,cache_unchanged", "--skip", "oracle")
    status, out, err = run("mine.py:step", "--cache", "mine.py:Cache", *only)
    assert (status, err) == (0, "")
    assert "read as: a decoding step with a cache; changes its cache in place" in out
    assert "convention · cache_unchanged: " in out
    assert "1 of 2 properties hold." in out
    assert "oracle" not in out


def test_the_command_says_what_is_forgotten(run):
    words = ("--step", "--map", "cache=memory", "--only", "past_kept", "--lang", "pt")
    status, out, _ = run("mine.py:forgetful", *words)
    assert status == 1
    assert out.startswith("Errada em past_kept.")
    assert "não dá peso à chave 0" in out


def test_the_command_refuses_with_2(run):
    status, _, err = run("mine.py:alone", "--step")
    assert status == 2
    assert err.startswith("attnref check: function: expected (output, cache), got Tensor.")
    status, _, err = run("mine.py:forgetful", "--step")
    assert (status, "--map cache=memory" in err) == (2, True)
    status, _, err = run("mine.py:step", "--cache", "mine.py:nothing")
    assert (status, err.startswith("attnref check: cache: mine.py has no 'n")) == (2, True)
    status, _, err = run("mine.py:alone", "--only", "pieces")
    assert (status, "only: 'pieces' is not the name of a" in err) == (2, True)
