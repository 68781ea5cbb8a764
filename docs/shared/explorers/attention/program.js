// The same numbers by the package: a program that runs as it is.

/** @typedef {import("../explorer.js").State} State */

/** @param {State} state  @returns {string} */
export function program(state) {
  const { scale, own, temperature, is_causal: isCausal, padding, side } = state;
  /** @type {string[]} */
  const words = state.words, n = words.length, rest = n - padding;
  const factor = scale === "root" ? "3**-0.5" : python(scale === "own" ? own : 1);
  const places = side === "end" ? `torch.arange(${n}) < ${rest}` : `torch.arange(${n}) >= ${padding}`;
  const options = [padding ? "attn_mask=is_word" : "", isCausal ? "is_causal=True" : "", "scale=scale"].filter(Boolean).join(", ");
  return [
    "import torch",
    "",
    "from attnref import attention_weights, scaled_dot_product_attention",
    "",
    `words = [${words.map((word) => JSON.stringify(word)).join(", ")}]`,
    "vectors = [",
    ...words.map((word, j) => `    [${state.vectors[j].map(python).join(", ")}],  # ${word}`),
    "]",
    `x = torch.tensor(vectors, dtype=torch.float64)  # (${n}, 3)`,
    `scale = ${factor}${temperature === 1 ? "" : ` / ${python(temperature)}  # by the temperature`}`,
    ...(padding ? [`is_word = ${places}  # False: padding, which no word may see`] : []),
    "",
    `weights = attention_weights(x, x, ${options})  # (${n}, ${n})`,
    `context = scaled_dot_product_attention(x, x, x, ${options})  # (${n}, 3)`,
    "for word, row, average in zip(words, weights.tolist(), context.tolist(), strict=True):",
    '    print(word, "weights", *(f"{weight:.4f}" for weight in row), end=" ")',
    '    print("context", *(f"{number:.4f}" for number in average))',
    "",
  ].join("\n");
}

/** A number as a float of Python. @param {number} number */
function python(number) {
  return Number.isInteger(number) ? `${number}.0` : String(number);
}
