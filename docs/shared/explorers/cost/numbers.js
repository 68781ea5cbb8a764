// What attention costs in a model, as attnref.cost and attnref.roofline count it: of all layers; and whether it fits.

/** @typedef {import("../explorer.js").State} State */
/**
 * What a program spends: all its operations, the exponentials among them, and bytes moved.
 * @typedef {{ operations: number, exponentials: number, bytes: number }} Cost
 * @typedef {{ n: number, m: number, d: number, b: number, h: number, kv: number, size: number }} Sizes
 */
/** @typedef {"core" | "full" | "projections"} Column */

const ROTARY = 64, LONGEST = 2 ** 20, ENDLESS = 2 ** 50, GIGA = 1e9, TERA = 1e12;
const BYTES = /** @type {Record<string, number>} */ ({ float32: 4, bfloat16: 2, float8_e4m3fn: 1 });
export const OCTAVES = Array.from({ length: 17 }, (_, place) => place + 4);
/** @type {Column[]} */
export const COLUMNS = ["core", "full", "projections"];

/** @param {number} bytes  @param {number} [operations]  @param {number} [exponentials]  @returns {Cost} */
const moved = (bytes, operations = 0, exponentials = 0) => ({ operations, exponentials, bytes });

/** @param {...Cost} costs  @returns {Cost} */
const sum = (...costs) => costs.reduce((one, other) => moved(one.bytes + other.bytes,
  one.operations + other.operations, one.exponentials + other.exponentials), moved(0));

/** @param {number} batch  @param {number} rows  @param {number} inner  @param {number} columns  @param {number} size */
const matmul = (batch, rows, inner, columns, size) =>
  moved(size * batch * (inner * (rows + columns) + rows * columns), 2 * batch * rows * inner * columns);

/** @param {State} state  @param {string} kind  @param {number} length  @returns {Sizes} */
function sizes(state, kind, length) {
  const decoding = state.phase === "decoding", h = state.heads;
  return {
    n: decoding ? 1 : length,
    m: decoding && kind === "window" ? Math.min(length, state.window) : length,
    d: state.head_dim,
    b: state.batch,
    h,
    kv: ["multi-head", "latent", "linear"].includes(kind) ? h : kind === "multi-query" ? 1 : state.kv_heads,
    size: BYTES[state.dtype],
  };
}

/** @param {Sizes} of  @param {number} pairs  @param {number} [dk]  @param {number} [dv]  @returns {Cost} */
function fused({ n, m, d, b, h, kv, size }, pairs, dk = d, dv = d) {
  return moved(size * b * (h * n + kv * m) * (dk + dv),
    b * h * (2 * pairs * (dk + dv) + 4 * pairs + n * (dk + dv)), b * h * pairs);
}

/** Each of its products costs as much. @param {Sizes} of  @param {boolean} training  @returns {Cost} */
function plain({ n, m, d, b, h, kv, size }, training) {
  const product = matmul(b * kv, h / kv * n, d, m, size), scores = b * h * n * m;
  const mask = n > 1 || training ? 2 * size * scores + n * m : 0;
  const back = [product, product, product, product, moved(5 * size * scores + mask, 5 * scores)];
  return sum(product, product, moved(4 * size * scores + mask, 6 * scores, scores), ...(training ? back : []));
}

/** @param {Sizes} of  @returns {Cost} */
function linear({ n, m, d, b, h, size }) {
  const heads = b * h, queries = heads * n * d, norm = heads * d, total = heads * n;
  return sum(matmul(heads, d, m, d, size), matmul(heads, n, d, d, size),
    moved(size * (heads * m * d + 5 * queries + 2 * (norm + total)), heads * m * d + 3 * queries));
}

/** @param {Sizes} of  @param {number} latent  @param {boolean} absorb  @param {number} pairs  @returns {Cost} */
function latentCore(of, latent, absorb, pairs) {
  const { n, m, d, b, h, size } = of;
  if (!absorb) {
    const up = matmul(1, b * m, latent, h * d, size);
    return sum(up, up, fused(of, pairs, d + ROTARY, d), moved(-size * b * (h - 1) * m * ROTARY));
  }
  return sum(matmul(h, b * n, d, latent, size), matmul(h, b * n, latent, d, size),
    fused({ ...of, kv: 1 }, pairs, latent + ROTARY, latent), moved(-size * b * m * latent));
}

/** Keys and values of few bits, a step of 32 for each vector. @param {Sizes} of  @param {number} bits */
const stored = ({ m, d, b, kv }, bits) => Math.ceil((bits * 2 * b * kv * m * d + 32 * 2 * b * kv * m) / 8);

/** @param {State} state  @param {string} kind  @param {number} length  @returns {Cost} of one layer */
function core(state, kind, length) {
  const of = sizes(state, kind, length), decoding = state.phase === "decoding";
  const { n, m, d, b, kv, size } = of;
  const causal = decoding ? m : n * (n + 1) / 2, w = Math.min(state.window, n);
  if (kind === "all-pairs") return fused(of, n * m);
  if (kind === "plain") return plain(of, state.phase === "training");
  if (kind === "window" && !decoding) return fused(of, n * w - w * (w - 1) / 2);
  if (kind === "latent") return latentCore(of, state.latent, decoding, causal);
  if (kind === "linear") {
    return decoding ? sum(linear({ ...of, m: 1 }), moved(size * b * of.h * d * (d + 1))) : linear(of);
  }
  if (kind === "quantized") {
    const wide = 2 * b * kv * m * d;
    return sum(fused(of, causal), moved(stored(of, state.bits) - size * wide, wide));
  }
  return fused(of, causal);
}

/** @param {State} state  @param {string} kind  @param {number} length  @returns {Cost} of one layer */
function projections(state, kind, length) {
  const { n, d, b, h, kv, size } = sizes(state, kind, length), { width, latent, query_latent: before } = state;
  const tokens = b * n, wide = h * (d + ROTARY), query = before ? [[width, before], [before, wide]] : [[width, wide]];
  const steps = [...(kind === "latent" ? [...query, [width, latent + ROTARY]]
    : [[width, h * d], [width, kv * d], [width, kv * d]]), [h * d, width]];
  return sum(moved(2 * size * tokens * h * d), ...steps.map(([from, to]) => matmul(1, tokens, from, to, size)));
}

/** @param {State} state  @param {Column} column */
const kindOf = ({ attention }, column) => column === "full" ? "multi-head" : attention;

/** @param {State} state  @param {Column} column  @param {number} length  @returns {Cost} of all layers */
function cost(state, column, length) {
  const kind = kindOf(state, column), one = column === "projections" ? projections : core;
  const training = state.phase === "training" && (one !== core || kind !== "plain");
  const { bytes, operations, exponentials } = one(state, kind, length), times = (training ? 3 : 1) * state.layers;
  return moved(bytes * times, operations * times, exponentials * times);
}

/** @param {State} state  @param {string} kind  @param {number} length  @returns {number} bytes */
function cache(state, kind, length) {
  const of = sizes({ ...state, phase: "decoding" }, kind, length), { m, d, b, h, kv, size } = of;
  return state.layers * (kind === "latent" ? size * b * m * (state.latent + ROTARY)
    : kind === "linear" ? size * b * h * d * (d + 1)
    : kind === "quantized" ? stored(of, state.bits) : size * 2 * b * kv * m * d);
}

/** Weights and cache beside the memory of a machine, and for what else one has room. @param {State} state */
export function fit(state) {
  const { n, batch, parameters, dtype } = state, memory = state.memory * GIGA, weights = parameters * BYTES[dtype];
  const held = (/** @type {number} */ length, /** @type {number} */ sequences) =>
    weights + cache({ ...state, batch: sequences }, state.attention, length);
  const all = held(n, batch), parts = { weights, kept: all - weights, held: all, memory };
  return {
    gigabytes: Object.fromEntries(Object.entries(parts).map(([name, size]) => [`${name}-GB`, size / GIGA])),
    rooms: {
      machines: Math.ceil(all / memory),
      "room-tokens": largest((length) => held(length, batch) <= memory),
      "room-batch": largest((sequences) => held(n, sequences) <= memory),
    },
  };
}

/** The largest number for which it holds, if not for any. @param {(count: number) => boolean} holds */
function largest(holds) {
  return holds(ENDLESS) ? undefined : last(holds, ENDLESS);
}

/** @param {State} state  @param {Cost} of */
function roofline({ speeds: [speed, memory, rate] }, { operations, exponentials, bytes }) {
  const all = /** @type {[string, number][]} */ ([
    ["compute", (rate ? operations - exponentials : operations) / (speed * TERA)],
    ["exponential", rate ? exponentials / (rate * TERA) : 0],
    ["memory", bytes / (memory * TERA)],
  ]);
  const [limit, seconds] = all.reduce((most, one) => one[1] > most[1] ? one : most);
  return { limit, seconds, intensity: operations / bytes, ridge: speed * TERA / (memory * TERA) };
}

/** @param {State} state  @returns {Column[]} */
export const shownColumns = ({ quantity: shown }) => shown === "cache" ? COLUMNS.slice(0, 2) : COLUMNS;

/** @param {State} state  @param {Column} column  @param {number} length  @returns {number} */
export function quantity(state, column, length) {
  if (state.quantity === "cache") return cache(state, kindOf(state, column), length);
  const one = cost(state, column, length);
  if (state.quantity === "seconds") return roofline(state, one).seconds;
  return state.quantity === "operations" ? one.operations : one.bytes;
}

/** A length at which it holds, and not one token before. @param {(length: number) => boolean} holds */
function crossing(holds) {
  return holds(LONGEST) ? last((length) => !holds(length), LONGEST) + 1 : undefined;
}

/** The last number below `high` for which it holds. @param {(count: number) => boolean} holds  @param {number} high */
function last(holds, high) {
  let low = 0;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return low;
}

const SI = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];
const IN_BYTES = { base: 1000, names: SI.slice(0, 8).map((prefix) => `${prefix}B`), first: 1 };

/** Of each quantity the base of its units, their names, and the size of the first. */
export const UNITS = /** @type {Record<string, { base: number, names: string[], first: number }>} */ ({
  operations: { base: 1000, names: SI, first: 1 }, intensity: { base: 1000, names: SI.slice(0, 6), first: 1 },
  bytes: IN_BYTES, cache: IN_BYTES, scores: IN_BYTES,
  seconds: { base: 1000, names: ["ns", "µs", "ms", "s"], first: 1e-9 },
});

/** A number in the unit in which it is read most easily. @param {number} value  @param {string} name */
export function brief(value, name) {
  const { base, names } = UNITS[name];
  let place = 0, size = name === "seconds" ? value * 1e9 : value;
  for (; size >= base && place + 1 < names.length; place++) size /= base;
  return /** @type {[number, string]} */ ([size, names[place]]);
}

/** What is shown of one length. @param {State} state */
export function now(state) {
  const found = /** @type {Record<string, number>} */ ({});
  const limits = /** @type {Record<Column, string>} */ ({});
  for (const column of COLUMNS) {
    const one = cost(state, column, state.n), roof = roofline(state, one);
    Object.assign(found, { [`${column}-operations`]: one.operations, [`${column}-bytes`]: one.bytes,
      [`${column}-intensity`]: roof.intensity, [`${column}-seconds`]: roof.seconds, ridge: roof.ridge });
    if (column !== "projections") found[`${column}-cache`] = cache(state, kindOf(state, column), state.n);
    limits[column] = roof.limit;
  }
  const { n, m, b, h, size } = sizes(state, "multi-head", state.n);
  found["full-scores"] = size * b * h * n * m;
  return { found, limits };
}

/** Where lines cross, if they do. @param {State} state */
export function crossings(state) {
  const at = (/** @type {Column} */ column, /** @type {number} */ length) => quantity(state, column, length);
  return {
    saves: crossing((length) => at("core", length) < at("full", length)),
    overtakes: state.quantity === "cache" ? undefined
      : crossing((length) => at("core", length) >= at("projections", length)),
  };
}
