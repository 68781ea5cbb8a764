// The patterns of attnref.masks as rules of a pair, and what follows from which pairs are allowed.
import { Refused } from "../explorer.js";
import { read } from "./expression.js";

/** @typedef {import("./expression.js").Argument} Argument */
/** @typedef {import("./expression.js").Mask} Mask */
/** @typedef {Record<string, Argument>} Given */
/** @typedef {Uint8Array[]} Table a row of 0 and 1 for each query */

export const MOST = 48, LAYERS = 6;
const WIDTH = 64; // d_k and d_v of the operations that are counted
const EMPTY = 0, PARTIAL = 1, FULL = 2;

/** @type {Record<string, import("./expression.js").Pattern>} */
export const PATTERNS = {
  causal: { takes: ["n", "m?", "*", "alignment?"], make(given) {
    const { shape, offset } = aligned(given);
    return { ...shape, may: (i, j) => j <= i + offset };
  } },
  sliding_window: { takes: ["n", "m?", "*", "window", "alignment?", "is_causal?"], make(given) {
    const { shape, offset } = aligned(given), { back, ahead } = reachOf(given);
    return { ...shape, may: (i, j) => j >= i + offset - back && j <= i + offset + ahead };
  } },
  dilated: { takes: ["n", "m?", "*", "window", "dilation", "alignment?", "is_causal?"], make(given) {
    const { shape, offset } = aligned(given), { back, ahead } = reachOf(given);
    const dilation = whole(given.dilation, 1);
    return { ...shape, may: (i, j) => {
      const distance = i + offset - j;
      return distance <= back * dilation && -distance <= ahead * dilation && distance % dilation === 0;
    } };
  } },
  strided: { takes: ["n", "m?", "*", "stride", "alignment?"], make(given) {
    const { shape, offset } = aligned(given), stride = whole(given.stride, 1);
    return { ...shape, may: (i, j) => {
      const distance = i + offset - j;
      return distance >= 0 && (distance < stride || distance % stride === 0);
    } };
  } },
  dyadic: { takes: ["n", "m?", "*", "alignment?"], make(given) {
    const { shape, offset } = aligned(given);
    return { ...shape, may: (i, j) => {
      const distance = i + offset - j;
      return distance >= 0 && (distance & (distance - 1)) === 0;
    } };
  } },
  padding: { takes: ["lengths", "m"], make({ lengths, m }) {
    const columns = size(m), [length] = list(lengths, 0, columns);
    if (lengths.value.length !== 1) throw new Refused("one-length", { at: lengths.at, count: lengths.value.length });
    return { rows: 1, columns, may: (_, j) => j < length };
  } },
  prefix_lm: { takes: ["n", "*", "prefix"], make({ n, prefix }) {
    const columns = size(n), end = whole(prefix, 0, columns);
    return { rows: columns, columns, may: (i, j) => j <= i || j < end };
  } },
  documents: { takes: ["ids"], make: ({ ids }) => sameDocument(ids, list(ids, -Infinity)) },
  packed: { takes: ["lengths"], make({ lengths }) {
    const counts = list(lengths, 0, MOST);
    return sameDocument(lengths, counts.flatMap((count, id) => Array(count).fill(id)));
  } },
  global_tokens: { takes: ["n", "*", "positions"], make({ n, positions }) {
    const columns = size(n), chosen = new Set(list(positions, 0, columns - 1));
    return { rows: columns, columns, may: (i, j) => chosen.has(i) || chosen.has(j) };
  } },
  tree: { takes: ["parents", "*", "past?"], make({ parents, past }) {
    const rows = held(parents, parents.value.length), above = list(parents, -1, rows - 1);
    const before = past ? whole(past, 0, MOST - rows) : 0;
    const paths = above.map((_, node) => {
      const path = new Set([node]);
      for (let at = above[node]; at >= 0; at = above[at]) {
        if (path.has(at)) throw new Refused("circle", { at: parents.at, node: at });
        path.add(at);
      }
      return path;
    });
    return { rows, columns: before + rows, may: (i, j) => j < before || paths[i].has(j - before) };
  } },
};

/** @param {Argument} ids  @param {number[]} labels  @returns {Mask} */
function sameDocument(ids, labels) {
  const columns = held(ids, labels.length);
  return { rows: columns, columns, may: (i, j) => labels[i] === labels[j] && labels[i] >= 0 };
}

/** A whole number.  @param {Argument} given  @param {number} low  @param {number} [high]  @returns {number} */
function whole({ name, kind, value, at }, low, high = 999999) {
  if (kind !== "integer" || value < low || value > high) {
    throw new Refused("argument-range", { at, name, low, high });
  }
  return value;
}

/** @param {Argument} given */
const size = (given) => whole(given, 1, MOST);

/** The same of a count.  @param {Argument} given  @param {number} count */
function held({ name, at }, count) {
  if (count < 1 || count > MOST) throw new Refused("too-many", { at, name, count, high: MOST });
  return count;
}

/** @param {Argument} given  @param {number} low  @param {number} [high]  @returns {number[]} */
function list({ name, kind, value, at }, low, high = 999999) {
  if (kind !== "list") throw new Refused("no-list", { at, name });
  const wrong = value.find((/** @type {number} */ one) => one < low || one > high);
  if (wrong !== undefined) throw new Refused("item-range", { at, name, value: wrong, low, high });
  return value;
}

/** The shape, and how far behind position i the key of query i lies.  @param {Given} given */
function aligned({ n, m, alignment }) {
  const rows = size(n), columns = m && m.kind !== "none" ? size(m) : rows;
  const side = alignment?.value ?? null;
  if (![null, "top-left", "bottom-right"].includes(side)) throw new Refused("alignment", { at: alignment.at });
  if (rows !== columns && side === null) throw new Refused("alignment-missing", { at: n.at, rows, columns });
  return { shape: { rows, columns }, offset: side === "bottom-right" ? columns - rows : 0 };
}

/** How many keys before and behind its own a window covers.  @param {Given} given */
function reachOf({ window, is_causal: causal }) {
  const width = whole(window, 1);
  if (causal && causal.kind !== "truth") throw new Refused("no-truth", { at: causal.at, name: causal.name });
  if (causal?.value) return { back: width - 1, ahead: 0 };
  if (width % 2 === 0) {
    throw new Refused("even-window", { at: window.at, value: width, below: width - 1, above: width + 1 });
  }
  return { back: (width - 1) / 2, ahead: (width - 1) / 2 };
}

/**
 * What an expression says, with the one row repeated where it makes just one.
 * @param {string} expression  @param {number} n  @param {number} m
 */
export function evaluated(expression, n, m) {
  const reading = read(expression, PATTERNS, { n, m }), { mask } = reading;
  const isOneRow = mask.rows === 1 && n > 1, rows = isOneRow ? n : mask.rows;
  const may = Array.from({ length: rows }, (_, i) =>
    Uint8Array.from({ length: mask.columns }, (_none, j) => Number(mask.may(isOneRow ? 0 : i, j))));
  return { ...reading, isOneRow, rows, columns: mask.columns, may };
}

/** What each block holds.  @param {Table} may  @param {number} side */
export function blocksOf(may, side) {
  const down = Math.ceil(may.length / side), across = Math.ceil(may[0].length / side);
  return Array.from({ length: down }, (_, top) => Array.from({ length: across }, (_none, left) => {
    const rows = may.slice(top * side, (top + 1) * side);
    const width = Math.min(side, may[0].length - left * side), pairs = rows.length * width;
    const count = rows.reduce((sum, row) => sum + total(row.subarray(left * side, left * side + width)), 0);
    return { kind: count === 0 ? EMPTY : count === pairs ? FULL : PARTIAL, pairs, width, height: rows.length };
  }));
}

/**
 * The pairs between which information flows in exactly 1, 2, … layers; 1 if not square.
 * @param {Table} may
 */
export function powers(may) {
  const found = [may];
  // The keys of a row as the bits of two numbers, so that one `or` joins many of them.
  const halves = may.map((row) => [bits(row.subarray(0, 24)), bits(row.subarray(24))]);
  while (may.length === may[0].length && found.length < LAYERS) {
    found.push(found[found.length - 1].map((row) => {
      let low = 0, high = 0;
      for (let key = 0; key < row.length; key++) {
        if (row[key]) [low, high] = [low | halves[key][0], high | halves[key][1]];
      }
      return row.map((_, j) => (j < 24 ? low >> j : high >> (j - 24)) & 1);
    }));
  }
  return found;
}

/** @param {Uint8Array} row */
const bits = (row) => row.reduce((sum, one, j) => sum | (one << j), 0);

/** @param {Iterable<number>} row */
function total(row) {
  let sum = 0;
  for (const one of row) sum += one;
  return sum;
}

/** Every number, and what the figure is drawn from.  @param {import("../explorer.js").State} state */
export function numbers(state) {
  const found = evaluated(state.expression, state.n, state.m), { may, rows, columns } = found;
  const query = Math.min(state.query, rows - 1), blocks = blocksOf(may, state.block);
  const layers = powers(may), isSquare = rows === columns, linked = layers[isSquare ? state.layers - 1 : 0];
  const counts = may.map(total), pairs = rows * columns, allowed = total(counts);
  /** @type {Record<string, number>} */
  const values = { pairs, allowed, "allowed-percent": 100 * allowed / pairs };
  for (const [name, kind] of Object.entries({ empty: EMPTY, partial: PARTIAL, full: FULL })) {
    const here = blocks.flat().filter((block) => block.kind === kind);
    values[`blocks-${name}`] = here.length;
    values[`pairs-${name}`] = total(here.map((block) => block.pairs));
  }
  const computed = values["pairs-full"] + values["pairs-partial"];
  values["blocks-computed"] = values["blocks-full"] + values["blocks-partial"];
  values.blocks = blocks.length * blocks[0].length;
  values.computed = computed;
  values["computed-percent"] = 100 * computed / pairs;
  values.vain = computed - allowed;
  values.operations = 4 * pairs * WIDTH; // two products of a multiplication and an addition each
  values["operations-computed"] = 4 * computed * WIDTH;
  values["saved-percent"] = 100 * (1 - computed / pairs);
  values.blind = counts.filter((count) => count === 0).length;
  for (const [layer, table] of layers.entries()) values[`reach-${layer + 1}`] = total(table[query]);
  if (isSquare) {
    values.linked = total(linked.map(total));
    values.gained = total(linked.map((row, i) => total(row.filter((one, j) => one > may[i][j]))));
  }
  for (const [i, count] of counts.entries()) values[`row-${i}`] = count;
  const { names, isOneRow } = found;
  /** Whether a slider has something to change.  @param {string} name */
  const uses = (name) => names.has(name)
    || { block: true, layers: isSquare, n: isOneRow }[name] === true;
  return { ...found, values, query, blocks, layers, linked, isSquare, uses };
}
