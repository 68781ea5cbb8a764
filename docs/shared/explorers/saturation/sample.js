// The drawn queries and keys, and their products. Components are drawn one by one, so that a wider
// sample begins with a narrower one; the sums so far are kept at some, a few additions from each width.

export const QUERIES = 64, KEYS = 256;
const KEPT = 16;

/** Numbers from 0 to 1, the ends left out: mulberry32.  @param {number} seed */
function uniforms(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6D2B79F5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return (((bits ^ (bits >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
}

/** @param {number} seed */
export function sample(seed) {
  const next = uniforms(seed);
  /** @type {Float64Array[]} of each component: its values in the queries, then in the keys */
  const components = [];
  const kept = [new Float64Array(QUERIES * KEYS)];
  const products = new Float64Array(QUERIES * KEYS);

  /** Two normal numbers from two uniform ones: Box and Muller.  @param {number} place */
  function component(place) {
    while (components.length <= place) {
      const numbers = new Float64Array(QUERIES + KEYS);
      for (let i = 0; i < numbers.length; i += 2) {
        const radius = Math.sqrt(-2 * Math.log(next())), angle = 2 * Math.PI * next();
        numbers[i] = radius * Math.cos(angle);
        numbers[i + 1] = radius * Math.sin(angle);
      }
      components.push(numbers);
    }
    return components[place];
  }

  /** @param {Float64Array} sums  @param {number} from  @param {number} to  @param {number} n keys */
  function add(sums, from, to, n) {
    for (let place = from; place < to; place += 1) {
      const numbers = component(place);
      for (let query = 0; query < QUERIES; query += 1) {
        const factor = numbers[query], row = query * KEYS;
        for (let key = 0; key < n; key += 1) sums[row + key] += factor * numbers[QUERIES + key];
      }
    }
  }

  /** Row by row, 256 keys each, of which the first n are right.  @param {number} d_k  @param {number} n */
  return (d_k, n) => {
    const block = Math.floor(d_k / KEPT);
    for (let last = kept.length - 1; last < block; last += 1) {
      kept.push(Float64Array.from(kept[last]));
      add(kept[last + 1], last * KEPT, (last + 1) * KEPT, KEYS);
    }
    products.set(kept[block]);
    add(products, block * KEPT, d_k, n);
    return products;
  };
}
