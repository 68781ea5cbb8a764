// The law: the means that n independent scores from N(0, sigma²) give. Conditioned on the largest score,
// the others lie y below it, independently. With the sum S of their e^-y, the largest weight is
// 1/(1 + S), the integral of e^-v(1 + S) over v > 0, so that its mean is an integral over powers of a
// mean over a single y; the entropy and the trace likewise. docs/explorers/saturation/values.py is the
// same with finer steps.

/** @typedef {{ largest: number, entropy: number, trace: number }} Means */

const STEP = 0.18, UP = 0.2; // of x below, and of the largest score in units of sigma

const PLACES = 38; // from 0 to infinity, densest where something changes: t = exp(x - e^-x)
const T = new Float64Array(PLACES), DT = new Float64Array(PLACES), ENDS = new Float64Array(PLACES);
for (let place = 0; place < PLACES; place += 1) {
  const x = -3.1 + STEP * place;
  T[place] = Math.exp(x - Math.exp(-x));
  DT[place] = STEP * (1 + Math.exp(-x)) * T[place];
  ENDS[place] = Math.exp(-T[place]) * DT[place];
}
const LARGEST = Array.from({ length: 52 }, (_, place) => {
  const z = -4 + UP * place;
  return { z, density: density(z), below: below(z) };
});

/** @param {number} z */
export function density(z) {
  return Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI);
}

/** The share of a standard normal number below z, by its series.  @param {number} z */
function below(z) {
  let sum = 0, term = z;
  for (let odd = 3; sum + term !== sum; odd += 2) {
    sum += term;
    term *= z * z / odd;
  }
  return 0.5 + density(z) * sum;
}

/** For y = scale t: e^-y, and for each v exp(-v e^-y).  @param {number} scale */
function fading(scale) {
  const falls = T.map((t) => Math.exp(-scale * t));
  const fades = Float64Array.from({ length: PLACES ** 2 }, (_, cell) => (
    Math.exp(-T[Math.floor(cell / PLACES)] * falls[cell % PLACES])));
  return { falls, fades };
}

const WIDE = fading(1);

/**
 * For a largest score: for each v the mean of exp(-v e^-y) and its logarithm, and the means of that times
 * y e^-y, and times e^-2y. They do not depend on n, so that a table of them serves each number of keys.
 * @typedef {{ alone: Float64Array, log: Float64Array, lagging: Float64Array, squares: Float64Array }} Row
 */

/** @param {number} sigma  @returns {(row: number) => Row} its rows, each computed when it is asked for */
export function table(sigma) {
  const scale = Math.min(sigma, 1), { falls, fades } = sigma < 1 ? fading(scale) : WIDE;
  /** @type {Row[]} */
  const rows = [];
  const chances = new Float64Array(PLACES);

  /** @param {number} row */
  function compute(row) {
    const [alone, log, lagging, squares] = Array.from({ length: 4 }, () => new Float64Array(PLACES));
    const { z, below: share } = LARGEST[row];
    for (let i = 0; i < PLACES; i += 1) {
      chances[i] = density(z - scale * T[i] / sigma) * scale * DT[i] / sigma / share;
    }
    for (let column = 0; column < PLACES; column += 1) {
      let faded = 0, lag = 0, squared = 0;
      for (let i = 0; i < PLACES; i += 1) {
        const fade = fades[column * PLACES + i], tied = chances[i] * fade * falls[i];
        faded += chances[i] * (1 - fade);
        lag += tied * T[i];
        squared += tied * falls[i];
      }
      faded = Math.min(faded, 1 - 1e-16);
      alone[column] = 1 - faded;
      log[column] = Math.log1p(-faded);
      lagging[column] = lag * scale;
      squares[column] = squared;
    }
    return { alone, log, lagging, squares };
  }

  return (row) => (rows[row] ??= compute(row));
}

/** @param {ReturnType<typeof table>} rows  @param {number} n  @returns {Means} */
export function means(rows, n) {
  let largest = 0, entropy = 0, squared = 0;
  for (let row = 0; row < LARGEST.length; row += 1) {
    const { density: here, below: share } = LARGEST[row];
    const leads = n * here * share ** (n - 1) * UP;
    if (leads < 1e-8) continue;
    const { alone, log, lagging, squares } = rows(row);
    for (let column = 0; column < PLACES; column += 1) {
      const v = T[column], end = leads * ENDS[column];
      const rest = Math.exp((n - 1) * log[column]), others = (n - 1) * rest / alone[column];
      largest += rest * end;
      entropy += ((1 - rest) / v + others * lagging[column]) * end;
      squared += (rest + others * squares[column]) * v * end;
    }
  }
  return { largest, entropy, trace: 1 - squared };
}
