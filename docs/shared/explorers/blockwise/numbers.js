// Softmax attention of one query, block after block of keys.

/** @typedef {import("../explorer.js").State} State */
/** @typedef {{ first: number, last: number }} Span */
/** @typedef {Span & { isSkipped: boolean }} Block */

// Digits of π, so that a reader can follow sums of them.
export const VALUES = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3];
export const LOWEST = -4, HIGHEST = 8;

/**
 * What is carried on after a block, which has factor and own unless it was skipped.
 * @typedef {{ mu: number, ell: number, a: number, factor?: number, own?: { ell: number, a: number } }} Carried
 */

/** @param {State} state  @returns {number} of keys in a block */
export const sizeOf = (state) => Math.min(state.block, state.keys);

/** @param {State} state  @returns {number} the chosen query, counted from 1 */
export const rowOf = (state) => Math.min(state.row, state.keys);

/**
 * A score before anything is added to all.
 * @param {State} state  @param {number} i  @param {number} j
 * @returns {number}
 */
export function score(state, i, j) {
  const edited = state.edits[`${i}-${j}`];
  if (edited !== undefined) return edited ?? -Infinity;
  if (state.preset === "masked" && j <= sizeOf(state)) return -Infinity;
  if (state.preset === "equal") return 1;
  if (state.preset === "last" && j === state.keys) return 8;
  return (((3 * i * i + 39 * j * j + 19 * i * j + 20) % 61) - 30) / 10;
}

/**
 * The scores of the chosen query, −∞ where the mask forbids a key.
 * @param {State} state  @returns {number[]}
 */
export function scoresOf(state) {
  const i = rowOf(state);
  return Array.from({ length: state.keys }, (_, index) =>
    state.causal && index + 1 > i ? -Infinity : score(state, i, index + 1) + state.shift);
}

/**
 * The queries that are computed together with the chosen one.
 * @param {State} state  @returns {Span}
 */
export function stripOf(state) {
  const size = sizeOf(state), first = Math.floor((rowOf(state) - 1) / size) * size + 1;
  return { first, last: Math.min(first + size - 1, state.keys) };
}

/**
 * The blocks of keys, in the order in which they are seen; one is skipped where each of its keys is
 * in the future of each query of the strip.
 * @param {State} state  @returns {Block[]}
 */
export function blocksOf(state) {
  const size = sizeOf(state), strip = stripOf(state);
  const blocks = Array.from({ length: Math.ceil(state.keys / size) }, (_, index) => {
    const first = index * size + 1;
    return { first, last: Math.min(first + size - 1, state.keys), isSkipped: state.causal && first > strip.last };
  });
  return state.backward ? blocks.toReversed() : blocks;
}

/**
 * The exponential of a score relative to a maximum; where both are −∞, it is 0, too.
 * @param {number} s  @param {number} maximum
 */
export const power = (s, maximum) => (s === -Infinity ? 0 : Math.exp(s - maximum));

/**
 * The sums over some keys, relative to a maximum not below theirs.
 * @param {number[]} scores  @param {number} maximum  @param {number} first of these keys
 */
function sums(scores, maximum, first) {
  let ell = 0, a = 0;
  scores.forEach((s, index) => {
    const p = power(s, maximum);
    ell += p;
    a += p * VALUES[first - 1 + index];
  });
  return { ell, a };
}

/** @param {{ ell: number, a: number }} sums  @returns {number} 0 where no key is allowed */
const output = ({ ell, a }) => a / (ell || 1);

/**
 * @param {Carried} before  @param {number[]} scores  @param {Block} block
 * @returns {Carried}
 */
function after({ mu, ell, a }, scores, { first, last, isSkipped }) {
  if (isSkipped) return { mu, ell, a };
  const block = scores.slice(first - 1, last), maximum = Math.max(mu, ...block);
  const factor = power(mu, maximum), own = sums(block, maximum, first);
  return { mu: maximum, ell: factor * ell + own.ell, a: factor * a + own.a, factor, own };
}

/**
 * All that is shown in a state, by name, and what it is made of.
 * @param {State} state
 */
export function numbers(state) {
  const scores = scoresOf(state), blocks = blocksOf(state), step = Math.min(state.step, blocks.length);
  /** @type {Carried[]} */
  const run = [{ mu: -Infinity, ell: 0, a: 0 }];
  for (const block of blocks) run.push(after(run[run.length - 1], scores, block));
  const now = run[step], before = run[Math.max(step - 1, 0)], current = blocks[step - 1];
  /** @type {Record<string, number>} */
  const values = {};
  scores.forEach((s, index) => { values[`score-${index + 1}`] = s; });
  run.slice(0, step + 1).forEach(({ mu, ell, a, factor }, index) => {
    Object.assign(values, { [`mu-${index}`]: mu, [`ell-${index}`]: ell, [`a-${index}`]: a });
    if (factor !== undefined) values[`factor-${index}`] = factor;
  });
  for (const { first, last, isSkipped } of blocks.slice(0, step)) {
    if (isSkipped) continue;
    for (let j = first; j <= last; j++) values[`power-${j}`] = power(scores[j - 1], now.mu);
  }
  if (now.own) {
    const largest = Math.max(...scores.slice(current.first - 1, current.last));
    Object.assign(values, { "block-largest": largest, "block-ell": now.own.ell, "block-a": now.own.a });
  }
  values.output = output(now);
  values.whole = output(sums(scores, Math.max(...scores), 1));
  Object.assign(values, asItStands(scores), counts(state, current));
  return { state, values, scores, blocks, step, strip: stripOf(state), current, run, before, now };
}

/**
 * The formula of softmax without a maximum, with each number rounded to float32; an output that is
 * no number is left out.
 * @param {number[]} scores
 */
function asItStands(scores) {
  const { fround } = Math;
  const powers = scores.map((s) => fround(Math.exp(fround(s))));
  const total = powers.reduce((found, p) => fround(found + p), 0);
  const average = powers.reduce((found, p, k) => fround(found + fround(fround(p / total) * VALUES[k])), 0);
  return { "naive-ell": total, ...(Number.isNaN(average) ? {} : { "naive-output": average }) };
}

/**
 * Scores and sums that are held now, and the scores of the whole table.
 * @param {State} state  @param {Block | undefined} now
 */
function counts(state, now) {
  const n = state.keys, size = sizeOf(state), strip = stripOf(state);
  const rows = strip.last - strip.first + 1;
  const held = now && !now.isSkipped ? rows * (now.last - now.first + 1) : 0;
  let computed = 0, pairs = 0;
  for (let top = 0; top < n; top += size) {
    const height = Math.min(size, n - top), width = state.causal ? Math.min(top + size, n) : n;
    computed += Math.ceil(width / size);
    pairs += height * width;
  }
  return { "whole-scores": n * n, "held-scores": held, "held-sums": 3 * rows, "computed-scores": pairs,
    "computed-blocks": computed };
}

/**
 * A program that prints what is shown after each block.
 * @param {State} state
 */
export function program(state) {
  const { scores, blocks } = numbers(state);
  const told = scores.map((s) => (s === -Infinity ? "-inf" : String(s)));
  const seen = blocks.filter(({ isSkipped }) => !isSkipped).map(({ first, last }) => `(${first}, ${last})`);
  return `from math import exp, inf

import torch
from attnref.softmax import merge, partial_attention, stable

scores = torch.tensor([[${told.join(", ")}]], dtype=torch.float64)  # (1, m)
value = torch.tensor([${VALUES.slice(0, state.keys).join(", ")}], dtype=torch.float64)[:, None]  # (m, 1)
blocks = [${seen.join(", ")}]  # first and last key of each

so_far = partial_attention(scores[:, :0], value[:0])  # over no key: -inf, 0, 0
for first, last in blocks:
    keys = slice(first - 1, last)
    block = partial_attention(scores[:, keys], value[keys])
    before, so_far = so_far, merge(so_far, block)
    mu, ell = so_far.maximum.item(), so_far.normaliser.item()
    factor = 0.0 if before.maximum == -inf else exp(before.maximum.item() - mu)
    a = so_far.output.item() * ell
    print(f"keys {first} to {last}: factor {factor}, mu {mu}, ell {ell}, a {a}")
print("block by block:", so_far.output.item())
print("in one go:", (stable(scores) @ value).item())
powers = scores.float().exp()
print("formula as it stands, in float32:", (powers / powers.sum() @ value.float()).item())
`;
}
