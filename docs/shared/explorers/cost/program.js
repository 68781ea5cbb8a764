// The same numbers in Python, by attnref.

/** @param {import("../explorer.js").State} state with the sizes of its model and the speeds of its machine */
export function programOf(state) {
  const { attention: kind, phase, n, batch, heads, head_dim: d, width, window, latent, bits, query_latent: before,
    speeds: [speed, memory, rate] } = state;
  const decoding = phase === "decoding", training = phase === "training", thrice = training ? " * 3" : "";
  const keys = `replace(sizes, m=${Math.min(n, window)})`, few = `cost.of("quantized", sizes, bits=${bits}`;
  const kv = kind === "multi-query" ? 1 : ["multi-head", "latent", "linear"].includes(kind) ? heads : state.kv_heads;
  const [core, kept = "sizes.cache_bytes"] = /** @type {Record<string, string[]>} */ ({
    "all-pairs": ['cost.of("fused", sizes)'],
    plain: [training ? 'cost.of("plain", sizes, masked=True) + cost.of("plain", sizes, masked=True, backward=True)'
      : 'cost.of("plain", sizes, masked=sizes.n > 1)'],
    window: [decoding ? `cost.of("fused", ${keys})`
      : `cost.of("fused", sizes, pairs=cost.allowed_pairs(${n}, ${n}, window=(${window} - 1, 0)))`,
      `${keys}.cache_bytes`],
    latent: [`cost.of("latent", sizes, latent_dim=${latent}, rotary_dim=64, absorb=sizes.n == 1, pairs=pairs)`,
      `replace(sizes, num_kv_heads=1, d_k=${latent} + 64, d_v=0).cache_bytes`],
    linear: [decoding ? 'cost.of("linear", replace(sizes, m=1)) + cost.Cost(bytes_read=sizes.state_bytes)'
      : 'cost.of("linear", sizes)',
      "sizes.state_bytes"],
    quantized: [`${few}, pairs=pairs)`, `${few}).bytes_read - cost.of("fused", sizes).bytes_read + sizes.cache_bytes`],
  })[kind] ?? ['cost.of("fused", sizes, pairs=pairs)'];
  const queries = `${before ? `${width}, ${before}), (${before}` : width}, ${heads * (d + 64)}`;
  const around = kind === "latent" ? `sum(
    (
        cost.kernels.linear_layer(${batch} * sizes.n, *one, sizes.dtype.itemsize, False)
        for one in [(${queries}), (${width}, ${latent} + 64), (${heads * d}, ${width})]
    ),
    cost.kernels.pass_over(${batch} * sizes.n * ${heads * d}, sizes.dtype.itemsize),
)` : `cost.multihead(sizes, ${width}, cost.Cost(), bias=False)`;
  return `from dataclasses import replace

import torch
from attnref import cost
from attnref.roofline import Machine

full_sizes = cost.Sizes(
    n=${decoding ? 1 : n}, m=${n}, d_k=${d}, d_v=${d}, batch=${batch}, num_heads=${heads},
    dtype=torch.${state.dtype},
)
sizes = replace(full_sizes, num_kv_heads=${kv})
pairs = cost.allowed_pairs(sizes.n, sizes.m, window=(None, sizes.m - sizes.n))
speeds = {torch.bfloat16: ${speed} * 1e12}
machine = Machine("${state.machine}", speeds, ${memory} * 1e12, ${rate ? `${rate} * 1e12` : "None"})
for name, layer in {
    "core": ${training && kind !== "plain" ? `(${core})${thrice}` : core},
    "full": cost.of("fused", full_sizes, pairs=pairs)${thrice},
    "projections": ${around}${thrice},
}.items():
    spent = layer * ${state.layers}
    found = machine.roofline(spent, dtype=torch.bfloat16)
    print(f"{name}: {spent.operations.total} operations, {spent.bytes_moved} bytes,")
    print(f"  {found.intensity} per byte, {found.seconds} s, limited by {found.bound}")
kept = ${kept}
print(f"cache: {${state.layers} * kept} bytes, full: {${state.layers} * full_sizes.cache_bytes} bytes")
held = ${state.parameters} * sizes.dtype.itemsize + ${state.layers} * kept
print(f"weights and cache: {held} bytes, of {${state.memory} * 10**9}")
print(f"scores of a layer: {full_sizes.score_bytes} bytes")
`;
}
