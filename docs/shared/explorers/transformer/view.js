// The small Transformer: what one types, where each head looks, and what comes next.
import { rewrite } from "../draw.js";
import { explorer, filled, inRange, oneOf, part, Refused, textsOf } from "../explorer.js";
import { FACTORS, HEADS, LAYERS, likely, placeOf, read, run, unpacked, values, WINDOW } from "./numbers.js";

/** @typedef {import("./numbers.js").Model} Model */
/** @typedef {import("./numbers.js").Run} Run */
/** @typedef {import("../explorer.js").State} State */

const MASKS = ["causal", "none"], SHADES = 12, SMALLEST = 16;
const NAMES = Array.from({ length: LAYERS * HEADS }, (_, i) => `${Math.floor(i / HEADS) + 1}-${i % HEADS + 1}`);
/** @type {Record<string, string>} */
const GLYPHS = { " ": "·", "\n": "¶" };

/** @param {HTMLElement} root */
export function start(root) {
  const texts = textsOf(root), first = JSON.stringify(JSON.parse(root.dataset.state ?? "{}"));
  const area = part(root, "[name=text]"), slider = part(root, "[name=at]");
  const loader = /** @type {HTMLButtonElement} */ (part(root, "[data-do=load]"));
  const map = part(root, ".transformer-map"), chosen = part(map, "use"), row = part(map, ".row");
  const keys = all(map, ".key"), queries = all(map, ".query"), given = all(map, ".given > g");
  const shades = NAMES.map((name) => all(root, `#transformer-${name} path`));
  const thumbs = all(root, ".transformer-heads svg"), next = all(root, ".transformer-next > g");
  const loss = part(root, "[data-name=loss]"), body = root.querySelector("tbody"); // the small one has none
  const rows = Array.from({ length: body ? WINDOW : 0 }, (_, place) => /** @type {HTMLElement} */ (
    body?.children[place] ?? rowOf(/** @type {HTMLElement} */ (body?.lastElementChild), place + 1)));

  /** @type {Model | undefined} */
  let model;
  /** @type {{ tokens: number[], unknown: string[], run: Run }} */
  let shown;
  let asked = "", isLoading = false;
  /** @type {Record<string, number>} */
  let found = {};

  const { state, change, warn } = explorer(root, { check, draw, tell });

  /** @param {State} wanted */
  function check(wanted) {
    if (typeof wanted.text !== "string") throw new Refused("not-a-text", { label: texts.text });
    oneOf(wanted.factor, texts.factor, Object.keys(FACTORS));
    oneOf(wanted.mask, texts.mask, MASKS);
    oneOf(wanted.head, texts.heads, NAMES);
    inRange(wanted.at, texts.at, 1 - WINDOW, 0);
    if (!Number.isInteger(wanted.at)) throw new Refused("not-whole", { label: texts.at, value: wanted.at });
  }

  /** @param {State} seen */
  function draw(seen) {
    if (!model) return;
    if (compute(model, seen)) drawText(seen.mask === "causal");
    const { unknown } = shown;
    if (unknown.length) {
      const alphabet = Array.from(model.letters).filter((letter) => letter.trim()).join("");
      warn(filled(texts["not-known"], { letters: unknown.map((one) => `“${one}”`).join(", "), alphabet }), area);
      area.setAttribute("aria-invalid", "true");
    }
    const query = placeOf(seen.at, shown.tokens.length);
    found = values(shown.run, shown.tokens, query);
    drawRow(seen.head, query);
  }

  /** @param {State} seen */
  function tell(seen) {
    if (!model) {
      // What stands there is the first view, for which nothing is loaded.
      if (JSON.stringify(seen) !== first) load();
      return { said: isLoading ? texts.loading : "" };
    }
    const { tokens } = shown, query = placeOf(seen.at, tokens.length);
    rewriteAll();
    slider.setAttribute("aria-valuetext", filled(texts["at-value"],
      { letter: spoken(tokens[query]), place: query + 1, count: tokens.length }));
    return { said: sentence(seen.head, query) };
  }

  /** Whether there is something new. @param {Model} known  @param {State} seen */
  function compute(known, { text, factor, mask }) {
    const key = JSON.stringify([text, factor, mask]);
    if (key === asked) return false;
    asked = key;
    const reading = read(known, text);
    const scale = FACTORS[/** @type {keyof FACTORS} */ (factor)];
    shown = { ...reading, run: run(known, reading.tokens, scale, mask === "causal") };
    return true;
  }

  /** What only the text, the factor and the mask change. @param {boolean} isCausal */
  function drawText(isCausal) {
    const { tokens } = shown, { chances, weights } = shown.run;
    const count = tokens.length, size = Math.max(count, SMALLEST);
    map.setAttribute("viewBox", [-0.06, -0.06, 1.32, 1.06].map((share) => share * size).join(" "));
    part(map, ".seen").setAttribute("d", isCausal
      ? tokens.map((_, i) => `M0 ${i}h${i + 1}v1h-${i + 1}z`).join("") : `M0 0h${count}v${count}h-${count}z`);
    row.setAttribute("width", String(count));
    part(map, ".given").setAttribute("transform", `translate(${count})`);
    for (let place = 0; place < WINDOW; place++) {
      const token = tokens[place];
      show(keys[place], token);
      show(queries[place], token);
      if (!place) continue;
      show(given[place - 1], token);
      const chance = token === undefined ? 0 : chances[place - 1][token];
      part(given[place - 1], "rect").setAttribute("width", String(0.18 * size * chance));
    }
    for (const thumb of thumbs) thumb.setAttribute("viewBox", `0 0 ${size} ${size}`);
    weights.flat().forEach((matrix, place) => shade(matrix, shades[place]));
    rows.slice(0, count).forEach((line, place) => { part(line, "th").textContent = spoken(tokens[place]); });
    if (body && body.children.length !== count) body.replaceChildren(...rows.slice(0, count));
    slider.setAttribute("min", String(1 - count));
  }

  /** @param {string} head  @param {number} query */
  function drawRow(head, query) {
    chosen.setAttribute("href", `#transformer-${head}`);
    row.setAttribute("y", String(query));
    queries.forEach((node, place) => node.classList.toggle("chosen", place === query));
    shown.tokens.forEach((_, place) => {
      part(keys[place], "rect").setAttribute("fill-opacity", found[`weight-${head}-${place + 1}`].toFixed(4));
    });
    likely(shown.run.chances[query]).forEach((token, rank) => {
      part(next[rank], ".letter").textContent = glyph(token);
      part(next[rank], "rect").setAttribute("width", (140 * found[`next-${rank + 1}`]).toFixed(2));
    });
  }

  function rewriteAll() {
    // A text of one character was not predicted, and has no loss.
    if ("loss" in found) loss.dataset.name = "loss";
    else {
      delete loss.dataset.name;
      loss.textContent = "–";
    }
    rewrite(root, found);
  }

  /** @param {string} head  @param {number} query */
  function sentence(head, query) {
    const [layer, number] = head.split("-"), weights = shown.run.weights[Number(layer) - 1][Number(number) - 1][query];
    const key = weights.indexOf(Math.max(...weights));
    const told = filled(texts.said, {
      query: spoken(shown.tokens[query]), key: spoken(shown.tokens[key]), weight: weights[key].toFixed(2),
      head: filled(texts["one-head"], { layer, head: number }),
      next: spoken(likely(shown.run.chances[query])[0]), chance: found["next-1"].toFixed(2),
    });
    return "loss" in found ? `${told} ${filled(texts["said-loss"], { loss: found.loss.toFixed(2) })}` : told;
  }

  async function load() {
    if (model || isLoading) return;
    isLoading = true;
    root.setAttribute("aria-busy", "true");
    loader.textContent = texts.loading;
    try {
      const answer = await fetch(new URL("weights.bin", import.meta.url));
      if (!answer.ok) throw new Error(answer.statusText);
      model = unpacked(await answer.arrayBuffer());
    } catch {
      warn(texts["not-loaded"], loader);
    }
    isLoading = false;
    loader.textContent = model ? texts.loaded : texts.load;
    loader.disabled = Boolean(model);
    if (model) change({});
    root.removeAttribute("aria-busy");
  }

  /** @param {Element} node  @param {number | undefined} token */
  function show(node, token) {
    node.toggleAttribute("display", false);
    if (token === undefined) node.setAttribute("display", "none");
    else (node.querySelector("text") ?? node).textContent = glyph(token);
  }

  /** @param {number} token */
  const letterOf = (token) => /** @type {Model} */ (model).letters[token];
  /** @param {number} token */
  const glyph = (token) => GLYPHS[letterOf(token)] ?? letterOf(token);
  /** @param {number} token */
  function spoken(token) {
    const letter = letterOf(token);
    return letter === " " ? texts.space : letter === "\n" ? texts.newline : letter;
  }

  loader.addEventListener("click", load);
  part(root, "[data-do=write]").addEventListener("click", async () => {
    await load();
    if (!model) return;
    compute(model, state());
    const [token] = likely(/** @type {Float64Array} */ (shown.run.chances.at(-1)));
    change({ text: state().text + letterOf(token), at: 0 });
  });

  /** The row under the pointer looks. @param {PointerEvent} event */
  function point(event) {
    const box = row.getBoundingClientRect(), count = Number(row.getAttribute("width"));
    const query = Number(row.getAttribute("y")) + Math.floor((event.clientY - box.top) / box.height);
    if (query >= 0 && query < count) change({ at: query + 1 - count });
  }
  map.addEventListener("pointerdown", point);
  map.addEventListener("pointermove", (event) => { if (event.buttons) point(event); });
}

/** @param {Element} root  @param {string} selector */
const all = (root, selector) => /** @type {HTMLElement[]} */ (Array.from(root.querySelectorAll(selector)));

/**
 * For each shade the outline of the cells that have it, as values.py draws them.
 * @param {Float64Array[]} matrix  @param {Element[]} paths
 */
function shade(matrix, paths) {
  const outlines = paths.map(() => "");
  matrix.forEach((weights, row) => weights.forEach((weight, column) => {
    const level = Math.floor(weight * SHADES + 0.5);
    if (level) outlines[level - 1] += `M${column} ${row}h1v1h-1z`;
  }));
  paths.forEach((path, level) => path.setAttribute("d", outlines[level]));
}

/** A row of the table for another character. @param {HTMLElement} pattern  @param {number} key */
function rowOf(pattern, key) {
  const row = /** @type {HTMLElement} */ (pattern.cloneNode(true));
  for (const node of /** @type {NodeListOf<HTMLElement>} */ (row.querySelectorAll("[data-name]"))) {
    node.dataset.name = node.dataset.name?.replace(/\d+$/, String(key));
  }
  return row;
}
