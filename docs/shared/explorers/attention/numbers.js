// Attention over a few words, and every number of it by the name that it has in values.py.

/** @typedef {import("../explorer.js").State} State */

/**
 * Of each query with each key.
 * @typedef {{ factor: number, allowed: boolean[][], scores: number[][], scaled: number[][],
 *   weights: number[][], contexts: number[][] }} Attention
 */

/** @param {State} state  @returns {Attention} */
export function attention(state) {
  const { words, padding, side } = state, n = words.length;
  /** @type {number[][]} */
  const vectors = state.vectors;
  const factor = (state.scale === "root" ? 1 / Math.sqrt(3) : state.scale === "own" ? state.own : 1) / state.temperature;
  const scores = vectors.map((query) => vectors.map((key) => dot(query, key)));
  const scaled = scores.map((row) => row.map((score) => score * factor));
  const allowed = vectors.map((_, i) => vectors.map((__, j) => (side === "end" ? j < n - padding : j >= padding) && (!state.is_causal || j <= i)));
  const weights = scaled.map((row, i) => softmax(row, allowed[i]));
  const contexts = weights.map((row) => [0, 1, 2].map((p) => dot(row, vectors.map((vector) => vector[p]))));
  return { factor, allowed, scores, scaled, weights, contexts };
}

/** @param {number[]} a  @param {number[]} b */
function dot(a, b) {
  return a.reduce((sum, value, place) => sum + value * b[place], 0);
}

/**
 * The largest score is subtracted first; where nothing is allowed, the weights are zeros.
 * @param {number[]} scores  @param {boolean[]} allowed
 */
function softmax(scores, allowed) {
  const largest = Math.max(...scores.filter((_, place) => allowed[place]));
  const shares = scores.map((score, place) => (allowed[place] ? Math.exp(score - largest) : 0));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => (total ? share / total : 0));
}

/** @param {State} state  @param {Attention} computed  @returns {Record<string, number>} */
export function named({ vectors, query, key, temperature, view }, { factor, allowed, scores, scaled, weights, contexts }) {
  const row = scaled[query], exponents = row.map((one, j) => (allowed[query][j] ? one : -Infinity));
  const [asks, looked, weight] = [vectors[query], vectors[key], weights[query][key]];
  const values = {
    factor,
    temperature,
    "key-score": scores[query][key],
    "key-scaled": row[key],
    "key-exponent": exponents[key],
    "key-exponential": Math.exp(exponents[key]),
    "total": exponents.reduce((sum, one) => sum + Math.exp(one), 0),
    "key-weight": weight,
    ...each("query", asks),
    ...each("key", looked),
    ...each("term", [0, 1, 2].map((p) => asks[p] * looked[p])),
    ...each("part", [0, 1, 2].map((p) => weight * looked[p])),
    ...each("context", contexts[query]),
  };
  if (view === "loop") {
    Object.assign(values, each("score", scores[query]), each("scaled", row), each("weight", weights[query]));
  }
  for (const i of vectors.keys()) {
    if (view === "loop") Object.assign(values, each(`vector-${i}`, vectors[i]));
    else Object.assign(values, each(`scaled-${i}`, scaled[i]), each(`weight-${i}`, weights[i]), each(`context-${i}`, contexts[i]));
  }
  return values;
}

/** Each number by a name and its place. @param {string} name  @param {number[]} numbers  @returns {Record<string, number>} */
function each(name, numbers) {
  return Object.fromEntries(numbers.map((number, place) => [`${name}-${place}`, number]));
}

/**
 * Three numbers from -1 to 1 that a word's letters give: they are the same each time, and mean nothing.
 * @param {string} word
 */
export function madeUp(word) {
  return [31, 37, 41].map((base, p) => {
    let rest = p + 1;
    for (const letter of word) rest = (rest * base + (letter.codePointAt(0) ?? 0)) % 201;
    return (rest - 100) / 100;
  });
}
