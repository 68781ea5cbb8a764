// The numbers that the explorer of saturation shows in a state, and the paths that it draws.
import { density, means, table } from "./law.js";
import { KEYS, QUERIES, sample } from "./sample.js";

/** @typedef {"none" | "sqrt" | "inverse" | "own"} Factor */
/** @typedef {{ d_k: number, factor: Factor, own: number, n: number, seed: number }} State */
/** @typedef {{ deviation: number, largest: Float64Array, entropy: Float64Array, trace: Float64Array }} Measured */

/** @type {Factor[]} */
const KNOWN = ["none", "sqrt", "inverse"];
/** @type {Factor[]} */
const FACTORS = [...KNOWN, "own"];
/** @type {("largest" | "entropy" | "trace")[]} */
const OF_ROWS = ["largest", "entropy", "trace"];
const HALF_OCTAVES = 18; // from a width of 1 to one of 512
const SCORE_BINS = 32, ROW_BINS = 25;

/** @param {Factor} factor  @param {State} state */
function scaleOf(factor, { d_k, own }) {
  return { none: 1, sqrt: 1 / Math.sqrt(d_k), inverse: 1 / d_k, own }[factor];
}

/** @type {{ seed: number, products: ReturnType<typeof sample> } | undefined} */
let last;

/** The products of all queries and keys.  @param {State} state */
function productsOf({ seed, d_k, n }) {
  if (last?.seed !== seed) last = { seed, products: sample(seed) };
  return last.products(d_k, n);
}

/**
 * The standard deviation of all scores, and three numbers of each query.
 * @param {Float64Array} products  @param {number} scale  @param {number} n  @returns {Measured}
 */
function measured(products, scale, n) {
  const [largest, entropy, trace] = OF_ROWS.map(() => new Float64Array(QUERIES));
  let total = 0, squares = 0;
  for (let query = 0; query < QUERIES; query += 1) {
    const start = query * KEYS;
    let top = -Infinity, sum = 0, squared = 0, lag = 0;
    for (let place = start; place < start + n; place += 1) {
      const score = scale * products[place];
      total += score;
      squares += score * score;
      if (score > top) top = score;
    }
    for (let place = start; place < start + n; place += 1) {
      const behind = scale * products[place] - top, power = Math.exp(behind);
      sum += power;
      squared += power * power;
      lag -= power * behind;
    }
    largest[query] = 1 / sum;
    entropy[query] = Math.log(sum) + lag / sum;
    trace[query] = 1 - squared / sum / sum;
  }
  const count = QUERIES * n;
  return { deviation: Math.sqrt(squares / count - (total / count) ** 2), largest, entropy, trace };
}

/** @param {State} state  @returns {{ values: Record<string, number>, paths: Record<string, string> }} */
export function shown(state) {
  const { d_k, factor, n } = state;
  const products = productsOf(state), scale = scaleOf(factor, state), sigma = scale * Math.sqrt(d_k);
  const all = FACTORS.filter((one) => one === factor || KNOWN.includes(one));
  const found = Object.fromEntries(all.map((one) => [one, measured(products, scaleOf(one, state), n)]));
  const rows = found[factor], law = means(table(sigma), n);
  return {
    values: valuesOf(rows, law, state, scale, sigma),
    paths: { ...overWidth(found, state), ...here(rows, law, products, state, scale, sigma) },
  };
}

/**
 * @param {Measured} rows  @param {import("./law.js").Means} law
 * @param {State} state  @param {number} scale  @param {number} sigma
 */
function valuesOf(rows, law, { n }, scale, sigma) {
  /** @type {Record<string, number>} */
  const values = {
    "factor": scale,
    "scores": QUERIES * n,
    "deviation-drawn": rows.deviation,
    "deviation-law": sigma,
    "entropy-most": Math.log(n),
    "range-high": span(sigma),
    "range-low": -span(sigma),
  };
  for (const name of OF_ROWS) {
    values[`${name}-drawn`] = mean(rows[name]);
    values[`${name}-median`] = median(rows[name]);
    values[`${name}-law`] = law[name];
  }
  return values;
}

/** Where the axis of the scores ends: a power of two, from four to eight times sigma.  @param {number} sigma */
function span(sigma) {
  return 4 * 2 ** Math.ceil(Math.log2(sigma) - 1e-9);
}

/** @param {Float64Array} numbers */
function mean(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

/** @param {Float64Array} numbers an even count */
function median(numbers) {
  const sorted = numbers.toSorted(), half = sorted.length / 2;
  return (sorted[half - 1] + sorted[half]) / 2;
}

/**
 * The law of each factor over the width, and on it what was drawn at this one.
 * @param {Record<string, Measured>} found by factor  @param {State} state
 */
function overWidth(found, { d_k, own, n }) {
  const across = fixed(Math.log2(d_k) / 9);
  /** @type {Record<string, string>} */
  const paths = { here: `M${across} 0V1` };
  for (const factor of FACTORS) {
    const rows = found[factor], lines = rows && linesOf(factor, own, n);
    for (const name of ["deviation", ...OF_ROWS]) {
      paths[`${name}-${factor}`] = lines?.[name] ?? "";
      paths[`${name}-${factor}-dot`] = rows ? `M${across} ${fixed(dot(rows, name, n))}h0` : "";
    }
  }
  return paths;
}

/** @param {Measured} rows  @param {string} name  @param {number} n */
function dot(rows, name, n) {
  if (name === "deviation") return height(rows.deviation);
  return mean(rows[/** @type {"largest"} */ (name)]) / most(name, n);
}

/** A standard deviation on its axis, from 0.01 to 100.  @param {number} deviation */
function height(deviation) {
  return (Math.log10(deviation) + 2) / 4;
}

/** @param {string} name  @param {number} n */
function most(name, n) {
  return name === "entropy" ? Math.log(n) : 1;
}

/** @type {Map<number, ReturnType<typeof table>>} the tables of the three factors' lines, by sigma */
const tables = new Map();
/** @type {{ n: number, by: Map<number, import("./law.js").Means> }} what they say of n keys */
let laws = { n: 0, by: new Map() };

/** The law of the three factors, which is asked for again and again.  @param {number} sigma  @param {number} n */
function keptLaw(sigma, n) {
  if (laws.n !== n) laws = { n, by: new Map() };
  let law = laws.by.get(sigma);
  if (!law) {
    const rows = tables.get(sigma) ?? table(sigma);
    tables.set(sigma, rows);
    law = means(rows, n);
    laws.by.set(sigma, law);
  }
  return law;
}

/** @type {Map<string, { asked: string, lines: Record<string, string> }>} the last lines of each factor */
const drawn = new Map();

/** @param {Factor} factor  @param {number} own  @param {number} n */
function linesOf(factor, own, n) {
  const asked = `${n} ${factor === "own" ? own : ""}`, known = drawn.get(factor);
  if (known?.asked === asked) return known.lines;
  /** @type {Record<string, [number, number][]>} */
  const points = { deviation: [], largest: [], entropy: [], trace: [] };
  for (let step = 0; step <= HALF_OCTAVES; step += 1) {
    const root = 2 ** (step / 4); // of the width
    const sigma = { none: root, sqrt: 1, inverse: 1 / root, own: own * root }[factor];
    const law = factor === "own" ? means(table(sigma), n) : keptLaw(sigma, n);
    points.deviation.push([step / HALF_OCTAVES, height(sigma)]);
    for (const name of OF_ROWS) points[name].push([step / HALF_OCTAVES, law[name] / most(name, n)]);
  }
  const lines = Object.fromEntries(Object.entries(points).map(([name, those]) => [name, line(those)]));
  drawn.set(factor, { asked, lines });
  return lines;
}

/**
 * How the numbers are distributed at this width, and what the law says of that.
 * @param {Measured} rows  @param {import("./law.js").Means} law  @param {Float64Array} products
 * @param {State} state  @param {number} scale  @param {number} sigma
 */
function here(rows, law, products, { n }, scale, sigma) {
  const end = span(sigma), shares = new Float64Array(SCORE_BINS);
  for (let query = 0; query < QUERIES; query += 1) {
    for (let place = query * KEYS; place < query * KEYS + n; place += 1) {
      put(shares, scale * products[place] / end / 2 + 0.5, QUERIES * n);
    }
  }
  const over = Array.from({ length: 2 * SCORE_BINS + 1 }, (_, place) => place / 2 / SCORE_BINS);
  const bell = over.map((up) => density((up - 0.5) * 2 * end / sigma) * 2 * end / SCORE_BINS / sigma);
  const top = Math.max(...shares, ...bell);
  /** @type {Record<string, string>} */
  const paths = {
    "scores-bars": bars(shares, top),
    "scores-law": line(bell.map((share, place) => [share / top, over[place]])),
  };
  for (const name of OF_ROWS) {
    const of = new Float64Array(ROW_BINS);
    for (const number of rows[name]) {
      put(of, Math.min(Math.max(number / most(name, n), 0), 1), QUERIES);
    }
    paths[`${name}-bars`] = bars(of, Math.max(...of));
    paths[`${name}-law`] = `M0 ${fixed(law[name] / most(name, n))}H1`;
  }
  return paths;
}

/**
 * Adds one of so many to the bin it lies in, if in any.
 * @param {Float64Array} bins  @param {number} part from 0 to 1  @param {number} all
 */
function put(bins, part, all) {
  if (part >= 0 && part <= 1) bins[Math.min(Math.floor(part * bins.length), bins.length - 1)] += 1 / all;
}

/** @param {Float64Array} shares  @param {number} top the longest */
function bars(shares, top) {
  const thick = 1 / shares.length;
  let path = "";
  shares.forEach((share, place) => {
    if (share) path += `M0 ${fixed(place * thick)}h${fixed(share / top)}v${fixed(thick)}H0z`;
  });
  return path;
}

/** @param {[number, number][]} points */
function line(points) {
  return `M${points.map(([across, up]) => `${fixed(across)} ${fixed(up)}`).join("L")}`;
}

/** @param {number} number */
function fixed(number) {
  return number.toFixed(4);
}
