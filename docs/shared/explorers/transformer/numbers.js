// The small Transformer: its weights, as they are loaded, and what it says of a text.

/** @typedef {{ rows: number, columns: number, numbers: Float64Array }} Matrix */
/** @typedef {{ letters: string, matrices: Map<string, Matrix> }} Model */
/** @typedef {{ tokens: number[], unknown: string[] }} Reading */
/** What comes out: n rows of probabilities, and of each layer and head n rows of n weights.
 * @typedef {{ chances: Float64Array[], weights: Float64Array[][][] }} Run */

export const LAYERS = 2, HEADS = 2, WINDOW = 32, LIKELY = 8;
const WIDTH = 64, HEAD_DIM = WIDTH / HEADS;
export const FACTORS = { unscaled: 1, inverse_sqrt: 1 / Math.sqrt(HEAD_DIM), inverse: 1 / HEAD_DIM };

/**
 * The weights of a file, as docs/explorers/small_model.py packs them.
 * @param {ArrayBuffer} file  @returns {Model}
 */
export function unpacked(file) {
  const view = new DataView(file), start = 4 + view.getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 4, start - 4)));
  let scale = start, place = start;
  for (const [, rows] of header.matrices) place += 4 * rows; // the scales come first
  const matrices = new Map();
  for (const [name, rows, columns] of header.matrices) {
    const numbers = new Float64Array(rows * columns);
    for (let row = 0; row < rows; row++, scale += 4) {
      const step = view.getFloat32(scale, true);
      for (let column = 0; column < columns; column++) numbers[row * columns + column] = step * view.getInt8(place++);
    }
    matrices.set(name, { rows, columns, numbers });
  }
  return { letters: header.letters, matrices };
}

/**
 * The last characters of a text, which begins on a new line; those not known are left out.
 * @param {Model} model  @param {string} text  @returns {Reading}
 */
export function read({ letters }, text) {
  const tokens = [], unknown = new Set();
  for (const letter of `\n${text}`) {
    const token = letters.indexOf(letter);
    if (token < 0) unknown.add(letter);
    else tokens.push(token);
  }
  return { tokens: tokens.slice(-WINDOW), unknown: [...unknown] };
}

/** The row of the character that looks. @param {number} at  @param {number} count */
export const placeOf = (at, count) => Math.max(count - 1 + at, 0);

/**
 * @param {Model} model  @param {number[]} tokens  @param {number} factor  @param {boolean} isCausal
 * @returns {Run}
 */
export function run(model, tokens, factor, isCausal) {
  const matrix = (/** @type {string} */ name) => /** @type {Matrix} */ (model.matrices.get(name));
  const linear = (/** @type {Float64Array[]} */ rows, /** @type {string} */ name) =>
    rows.map((row) => times(matrix(`${name}.weight`), row, matrix(`${name}.bias`).numbers));
  const embedding = matrix("embedding.weight");
  let rows = tokens.map((token) => embedding.numbers.slice(token * WIDTH, (token + 1) * WIDTH));
  const weights = [];
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = `layers.${layer}`, normal = rows.map(normalised);
    const query = linear(normal, `${name}.attention.query_proj`).map(rotated);
    const key = linear(normal, `${name}.attention.key_proj`).map(rotated);
    const value = linear(normal, `${name}.attention.value_proj`);
    const heads = attended(query, key, value, factor, isCausal);
    weights.push(heads.weights);
    rows = added(rows, linear(heads.rows, `${name}.attention.out_proj`));
    const hidden = linear(rows.map(normalised), `${name}.up`).map((row) => row.map(gelu));
    rows = added(rows, linear(hidden, `${name}.down`));
  }
  const chances = rows.map((row) => {
    const logits = times(embedding, normalised(row)).map((logit) => logit / Math.sqrt(WIDTH));
    return softmax(logits, logits.length);
  });
  return { chances, weights };
}

/**
 * Every number that is shown.
 * @param {Run} run  @param {number[]} tokens  @param {number} query  @returns {Record<string, number>}
 */
export function values({ chances, weights }, tokens, query) {
  /** @type {Record<string, number>} */
  const found = {};
  let sum = 0;
  for (let key = 1; key < tokens.length; key++) {
    const given = chances[key - 1][tokens[key]];
    found[`given-${key + 1}`] = given;
    sum -= Math.log(given);
  }
  if (tokens.length > 1) found.loss = sum / (tokens.length - 1);
  likely(chances[query]).forEach((token, rank) => { found[`next-${rank + 1}`] = chances[query][token]; });
  weights.forEach((heads, layer) => heads.forEach((rows, head) => rows[query].forEach((weight, key) => {
    found[`weight-${layer + 1}-${head + 1}-${key + 1}`] = weight;
  })));
  return found;
}

/** The most likely characters, the likeliest first. @param {Float64Array} chances */
export function likely(chances) {
  return Array.from(chances.keys()).toSorted((a, b) => chances[b] - chances[a]).slice(0, LIKELY);
}

/** @param {Float64Array[]} query  @param {Float64Array[]} key  @param {Float64Array[]} value
 * @param {number} factor  @param {boolean} isCausal */
function attended(query, key, value, factor, isCausal) {
  const count = query.length, rows = query.map(() => new Float64Array(WIDTH));
  /** @type {Float64Array[][]} */
  const weights = [];
  for (let head = 0; head < HEADS; head++) {
    const first = head * HEAD_DIM, last = first + HEAD_DIM;
    weights.push(query.map((q, i) => {
      const seen = isCausal ? i + 1 : count, row = new Float64Array(count);
      for (let j = 0; j < seen; j++) {
        let score = 0;
        for (let d = first; d < last; d++) score += q[d] * key[j][d];
        row[j] = factor * score;
      }
      softmax(row, seen);
      for (let j = 0; j < seen; j++) for (let d = first; d < last; d++) rows[i][d] += row[j] * value[j][d];
      return row;
    }));
  }
  return { rows, weights };
}

/** In place, of the first entries. @param {Float64Array} row  @param {number} count */
function softmax(row, count) {
  let largest = -Infinity, sum = 0;
  for (let j = 0; j < count; j++) largest = Math.max(largest, row[j]);
  for (let j = 0; j < count; j++) sum += row[j] = Math.exp(row[j] - largest);
  for (let j = 0; j < count; j++) row[j] /= sum;
  return row;
}

/** @param {Matrix} matrix  @param {Float64Array} row  @param {Float64Array} [bias] */
function times({ rows, columns, numbers }, row, bias) {
  const out = new Float64Array(rows);
  for (let i = 0, place = 0; i < rows; i++) {
    let sum = bias ? bias[i] : 0;
    for (let j = 0; j < columns; j++) sum += numbers[place++] * row[j];
    out[i] = sum;
  }
  return out;
}

/** @param {Float64Array[]} rows  @param {Float64Array[]} others */
const added = (rows, others) => rows.map((row, i) => row.map((one, j) => one + others[i][j]));

/** Of mean 0 and variance 1. @param {Float64Array} row */
function normalised(row) {
  let sum = 0, squares = 0;
  for (const one of row) sum += one;
  const mean = sum / row.length;
  for (const one of row) squares += (one - mean) ** 2;
  const deviation = Math.sqrt(squares / row.length + 1e-5);
  return row.map((one) => (one - mean) / deviation);
}

/** Each pair of neighbours turned by an angle that grows with the position. @param {Float64Array} row  @param {number} position */
function rotated(row, position) {
  const out = new Float64Array(row.length);
  for (let i = 0; i < row.length; i += 2) {
    const angle = position * 10_000 ** (-(i % HEAD_DIM) / HEAD_DIM);
    const cos = Math.cos(angle), sin = Math.sin(angle);
    out[i] = row[i] * cos - row[i + 1] * sin;
    out[i + 1] = row[i] * sin + row[i + 1] * cos;
  }
  return out;
}

/** @param {number} x */
const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** Its series of positive terms; beyond 6 it is 1 to all digits. @param {number} x */
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x, sum = x;
  for (let n = 3; Math.abs(term) > 1e-16 * Math.abs(sum); n += 2) {
    term *= 2 * x * x / n;
    sum += term;
  }
  return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
}
