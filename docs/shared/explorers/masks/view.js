// The mask that is written, as a table of pairs over the blocks that a kernel computes.
import { grow, say, set, write } from "../draw.js";
import { explorer, filled, inRange, part, Refused, textsOf } from "../explorer.js";
import { evaluated, LAYERS, MOST, numbers } from "./numbers.js";
import { lines, ranges, runs } from "./paths.js";
import { program } from "./program.js";
import { writing } from "./writing.js";

/** @typedef {import("../explorer.js").State} State */

const SIDE = 384, LEFT = 46, TOP = 24, BELOW = 40, STRIP = 18; // as in values.py and picture.html
const LIMITS = { n: [1, MOST], m: [1, MOST], block: [1, 16], layers: [1, LAYERS], query: [0, MOST - 1] };

/** Six digits, as Python writes them.  @param {number} value */
const short = (value) => String(Number(value.toPrecision(6)));

/** @param {State} wanted */
function check(wanted) {
  for (const [label, [low, high]] of Object.entries(LIMITS)) {
    inRange(wanted[label], label, low, high);
    if (!Number.isInteger(wanted[label])) throw new Refused("not-whole", { label, value: wanted[label] });
  }
  evaluated(typeof wanted.expression === "string" ? wanted.expression : "", wanted.n, wanted.m);
}

/** The place of a cell among so many.  @param {number} share of the way  @param {number} count */
const nearest = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));

/** @param {HTMLElement} root */
export function start(root) {
  const [handle, pointed] = ["[data-drag]", ".masks-pointed"].map((one) => part(root, one));
  // The small picture has neither this table nor the strips.
  const each = root.querySelector("tbody[data-part]"), hasStrips = Boolean(root.querySelector("[data-part=strips]"));
  if (each) grow(each, MOST);
  for (const [i, line] of [...each?.children ?? []].entries()) {
    part(line, "th").textContent = String(i);
    part(line, "span").dataset.name = `row-${i}`;
  }
  const elements = /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-name]"));
  const shown = Array.from(elements, (element) => ({ element, name: element.dataset.name ?? "" }));
  const settings = /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".masks-slider [data-of]"));
  /** @type {Record<string, Element>} */
  const pieces = {};
  for (const piece of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-part], [data-path]"))) {
    pieces[piece.dataset.part ?? piece.dataset.path ?? ""] = piece;
  }
  const texts = textsOf(root);
  /** @type {ReturnType<typeof numbers>} */
  let now;
  /** @type {{ i: number, j: number } | null} what the pointer is on */
  let under = null;

  /** @param {State} wanted */
  function draw(wanted) {
    now = numbers(wanted);
    const { rows, columns, isSquare } = now;
    place(SIDE / Math.max(rows, columns), isSquare ? wanted.layers - 1 : 0);
    trace(wanted.block);
  }

  /** @param {State} wanted */
  function tell(wanted) {
    const { may, rows, values, query, isSquare } = now, { layers } = wanted;
    for (const [i, line] of [...each?.children ?? []].entries()) {
      line.toggleAttribute("hidden", i >= rows);
      if (i < rows) say(line.children[2], ranges(may[i]) || texts.nothing);
    }
    for (const { element, name } of shown) {
      if (name in values) write(element, name, values[name], Number(element.dataset.digits));
      else { // over layers, a mask with more keys than queries says nothing
        delete element.dataset.name;
        say(element, "–");
      }
    }
    for (const setting of settings) {
      const name = setting.dataset.of ?? "", isUsed = now.uses(name);
      /** @type {HTMLInputElement} */ (setting.previousElementSibling).disabled = !isUsed;
      say(setting, isUsed ? String(wanted[name]) : name === "layers" ? "1" : texts.unused);
    }
    if (hasStrips) {
      say(pieces.heard, filled(texts.strips, { query }));
      say(pieces.joined, filled(texts.linked, { layers }));
    }
    set(handle, { "aria-valuetext": seen(query) });
    point();
    const reach = isSquare ? ` ${filled(texts["said-reach"], { layers, reach: values[`reach-${layers}`] })}` : "";
    const said = filled(texts.said, { ...values, blocks: values["blocks-computed"], sees: seen(query) }) + reach;
    return { said, program: program(wanted, now) };
  }

  /** Puts everything in its place.  @param {number} cell  @param {number} layer */
  function place(cell, layer) {
    const { rows, columns, query, isSquare } = now, count = now.layers.length;
    set(pieces.table, { transform: `translate(${LEFT} ${TOP}) scale(${short(cell)})` });
    set(pieces.ground, { width: columns, height: rows });
    set(pieces.row, { width: columns, y: query });
    set(pieces.last, { x: short(LEFT + columns * cell) });
    say(pieces.last, `0 … ${columns - 1}`);
    set(handle, { transform: `translate(0 ${short(TOP + (query + 0.5) * cell)})`,
      "aria-valuemax": rows - 1, "aria-valuenow": query });
    say(part(handle, "text"), String(query));
    if (!hasStrips) return;
    set(pieces.strips, { transform: `translate(${LEFT} ${short(TOP + rows * cell + BELOW)})` });
    set(pieces.cells, { transform: `scale(${short(cell)} ${STRIP})` });
    set(pieces.bottom, { width: columns, height: count });
    set(pieces.layer, { width: columns, y: layer });
    set(pieces.labels, { visibility: isSquare ? "visible" : "hidden" });
  }

  /** Draws the paths.  @param {number} side of a block */
  function trace(side) {
    const { may, rows, columns, query, blocks, layers, linked, values } = now, count = layers.length;
    const kind = (/** @type {number} */ i, /** @type {number} */ j) =>
      blocks[Math.floor(i / side)][Math.floor(j / side)].kind;
    const drawn = {
      full: runs(rows, columns, (i, j) => may[i][j] && kind(i, j) === 2),
      partial: runs(rows, columns, (i, j) => may[i][j] && kind(i, j) === 1),
      vain: runs(rows, columns, (i, j) => !may[i][j] && kind(i, j) === 1),
      gained: runs(rows, columns, (i, j) => linked[i][j] && !may[i][j], 1),
      lines: lines(rows, columns),
      blocks: blocks.flatMap((line, i) => line.map(({ kind: of, width, height }, j) =>
        (of ? `M${j * side} ${i * side}h${width}v${height}h-${width}z` : ""))).join(""),
      blind: may.map((_, i) => (values[`row-${i}`] ? "" : `M-2 ${3 * i}h1v3h-1z`)).join(""),
      direct: runs(count, columns, (i, j) => layers[i][query][j] && may[query][j]),
      indirect: runs(count, columns, (i, j) => layers[i][query][j] && !may[query][j]),
      between: lines(count, columns),
    };
    for (const [name, d] of Object.entries(drawn)) if (name in pieces) set(pieces[name], { d });
  }

  /** @param {number} query */
  function seen(query) {
    const keys = ranges(now.may[query]);
    if (!keys) return filled(texts["sees-none"], { query });
    return filled(texts.sees, { query, keys: filled(texts[/\D/.test(keys) ? "some-keys" : "one-key"], { keys }) });
  }

  /** Says what is under the pointer, or else what the chosen query sees. */
  function point() {
    if (!under || under.i >= now.rows || under.j >= now.columns) say(pointed, seen(now.query));
    else {
      const { i, j } = under, layer = now.layers.findIndex((table) => table[i][j]) + 1;
      const key = layer === 1 ? "pair-now" : layer ? "pair-later" : now.isSquare ? "pair-not" : "pair-forbidden";
      say(pointed, `${seen(i)} ${filled(texts[key], { key: j, layer: layer || LAYERS })}`);
    }
  }

  /** The pair at a place on the screen, or the nearest one.  @param {PointerEvent} event */
  function pairAt({ clientX, clientY }) {
    const box = pieces.ground.getBoundingClientRect();
    const i = nearest((clientY - box.top) / box.height, now.rows);
    return { i, j: nearest((clientX - box.left) / box.width, now.columns) };
  }

  const { state, change } = explorer(root, { check, draw, tell });
  writing(root, state);

  for (const target of [pieces.table, handle]) {
    target.addEventListener("pointerdown", (event) => {
      const pointer = /** @type {PointerEvent} */ (event);
      if (pointer.pointerType !== "touch" || target === handle) target.setPointerCapture(pointer.pointerId);
      under = target === handle ? null : pairAt(pointer);
      change({ query: pairAt(pointer).i });
    });
    target.addEventListener("pointermove", (event) => {
      const pointer = /** @type {PointerEvent} */ (event);
      under = target === handle ? null : pairAt(pointer);
      if (target.hasPointerCapture(pointer.pointerId)) change({ query: pairAt(pointer).i });
      else point();
    });
    target.addEventListener("pointerleave", (event) => {
      if (/** @type {PointerEvent} */ (event).pointerType === "touch") return; // what was touched stays said
      under = null;
      point();
    });
  }
  handle.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? state().block : 1, { query, rows } = now;
    const moved = { ArrowDown: query + step, ArrowRight: query + step, ArrowUp: query - step, ArrowLeft: query - step,
      Home: 0, End: rows - 1 }[event.key];
    if (moved === undefined) return;
    event.preventDefault();
    under = null;
    change({ query: Math.max(0, Math.min(rows - 1, moved)) });
  });
}
