// Softmax attention of one query, block after block of keys.

/** @typedef {import("../explorer.js").State} State */
/** @typedef {{ first: number, last: number, isSkipped: boolean }} Block */

// Digits of π, so that a reader can follow sums of them.
export const VALUES = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3];
export const LOWEST = -4, HIGHEST = 8;

/** What is carried from block to block; before the first one there is nothing. */
const NOTHING = { mu: -Infinity, ell: 0, a: 0 };

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
 * @param {State} state  @returns {{ first: number, last: number }}
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

/** @param {number} total  @param {number} addend */
const sum = (total, addend) => total + addend;

/**
 * All that is shown in a state, by name, and what it is made of.
 * @param {State} state
 */
export function numbers(state) {
  const scores = scoresOf(state), blocks = blocksOf(state), step = Math.min(state.step, blocks.length);
  /** @type {Record<string, number>} */
  const values = {};
  scores.forEach((s, index) => { values[`score-${index + 1}`] = s; });
  let before = NOTHING, now = NOTHING;
  note(values, 0, now);
  for (let index = 1; index <= step; index++) {
    const { first, last, isSkipped } = blocks[index - 1];
    before = now;
    if (!isSkipped) {
      const own = scores.slice(first - 1, last), largest = Math.max(...own), mu = Math.max(before.mu, largest);
      const factor = power(before.mu, mu), powers = own.map((s) => power(s, mu));
      const blockEll = powers.reduce(sum, 0);
      const blockA = powers.map((p, k) => p * VALUES[first - 1 + k]).reduce(sum, 0);
      now = { mu, ell: factor * before.ell + blockEll, a: factor * before.a + blockA };
      values[`factor-${index}`] = factor;
      if (index === step) {
        Object.assign(values, { "block-largest": largest, "block-ell": blockEll, "block-a": blockA });
      }
    }
    note(values, index, now);
  }
  for (const { first, last, isSkipped } of blocks.slice(0, step)) {
    if (isSkipped) continue;
    for (let j = first; j <= last; j++) values[`power-${j}`] = power(scores[j - 1], now.mu);
  }
  values.output = now.a / (now.ell || 1);
  values.whole = average(scores);
  Object.assign(values, asItStands(scores), counts(state, blocks, step));
  return { values, scores, blocks, step, before, now };
}

/** @param {Record<string, number>} values  @param {number} index  @param {typeof NOTHING} carried */
function note(values, index, { mu, ell, a }) {
  values[`mu-${index}`] = mu;
  values[`ell-${index}`] = ell;
  values[`a-${index}`] = a;
}

/**
 * The softmax average in one go.
 * @param {number[]} scores
 */
function average(scores) {
  const maximum = Math.max(...scores), powers = scores.map((s) => power(s, maximum));
  return powers.map((p, k) => p * VALUES[k]).reduce(sum, 0) / (powers.reduce(sum, 0) || 1);
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
  const output = powers.reduce((found, p, k) => fround(found + fround(fround(p / total) * VALUES[k])), 0);
  return { "naive-ell": total, ...(Number.isNaN(output) ? {} : { "naive-output": output }) };
}

/**
 * Scores and sums that are held now, and the scores of the whole table.
 * @param {State} state  @param {Block[]} blocks  @param {number} step
 */
function counts(state, blocks, step) {
  const n = state.keys, size = sizeOf(state), strip = stripOf(state), now = blocks[step - 1];
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
from attnref.softmax import merge, naive, partial_attention, stable

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
print("formula as it stands, in float32:", (naive(scores.float()) @ value.float()).item())
`;
}
