// The picture of attention over a few words: what is drawn, and what the reader's hand changes.
import { figure, grow, rewrite, say, set } from "../draw.js";
import { explorer, filled, part, textsOf } from "../explorer.js";
import { checked } from "./checked.js";
import { matrices } from "./matrices.js";
import { attention, madeUp, named } from "./numbers.js";
import { plane } from "./plane.js";
import { program } from "./program.js";

/** @typedef {import("../explorer.js").State} State */

/** @param {HTMLElement} root */
export function start(root) {
  const texts = textsOf(root), first = JSON.parse(root.dataset.state ?? "{}");
  const main = part(root, ".attention-main"), table = part(root, ".attention-flow"), body = part(table, "tbody");
  const chips = part(root, ".attention-query"), grids = matrices(texts);
  const fan = table.querySelector(".attention-fan svg"), ribbons = part(table, ".attention-ribbons svg");
  const drawn = root.querySelector(".attention-plane") && plane(root, () => state(), move);
  // The small picture has no steps by hand: what is touched there asks.
  const looks = root.dataset.small === undefined ? "key" : "query";
  for (const name of all("[data-look]")) set(name, { role: "button", tabindex: 0 });
  const said = [...all("[data-say]")];
  /** @type {import("./numbers.js").Attention} */
  let computed;
  const { change, state } = explorer(root, { check: (given) => checked(given, texts), draw, tell });

  /** @param {State} shown */
  function draw(shown) {
    const { words, query, view } = shown;
    computed = attention(shown);
    const weights = computed.weights[query], allowed = computed.allowed[query];
    if (words.length !== body.children.length) resize(words.length);
    if ((view === "loop") !== table.isConnected) main.replaceChildren(view === "loop" ? table : grids.element);
    if (view === "matrix") grids.draw(shown, computed);
    let from = 0;
    for (const [j, word] of words.entries()) {
      const chip = chips.children[j + 1], row = body.children[j];
      const name = part(row, "[data-look]"), mask = row.querySelector(".attention-mask");
      for (const element of [chip, name]) say(element, word);
      if (mask) say(mask, allowed[j] ? "✓" : "−∞");
      set(chip, { "aria-pressed": String(j === query), style: `--weight:${weights[j].toFixed(4)}` });
      set(name, { "aria-pressed": String(j === shown[looks]) });
      set(ribbons.children[j], { d: ribbon([j + 0.5, weights[j], from, from += words.length * weights[j]]) });
      for (const element of [chip, row, ribbons.children[j], fan?.children[j]]) {
        if (!element) continue;
        element.toggleAttribute("data-asks", j === query);
        element.toggleAttribute("data-looked-at", j === shown.key);
        element.toggleAttribute("data-masked", !allowed[j]);
      }
    }
    drawn?.(shown, computed);
  }

  /** @param {State} shown */
  function tell(shown) {
    const { query } = shown, spoken = labels(shown, computed.allowed[query]);
    for (const element of said) say(element, spoken[element.dataset.say ?? ""]);
    fill(shown);
    rewrite(root, named(shown, computed));
    return { said: outcome(shown, computed.weights[query], computed.contexts[query]), program: program(shown) };
  }

  /** As many rows, chips, lines and ribbons as there are words. @param {number} n */
  function resize(n) {
    grow(chips, n + 1);
    grow(body, n);
    for (const picture of [fan, ribbons]) {
      if (!picture) continue;
      grow(picture, n);
      set(picture, { viewBox: `0 0 100 ${n}` });
    }
    for (const cell of all("[rowspan]", table)) set(cell, { rowspan: n });
    for (let j = 0; j < n; j += 1) {
      const row = body.children[j];
      set(chips.children[j + 1], { "data-query": j });
      for (const element of [row, ribbons.children[j]]) set(element, { "data-key": j });
      set(part(row, "[data-look]"), { "data-look": j });
      for (const number of all("td:not([rowspan]) [data-name]", row)) {
        number.dataset.name = number.dataset.name?.replace(/\d/, String(j));
      }
      if (fan) set(fan.children[j], { d: `M0 ${n / 2}C50 ${n / 2} 50 ${j + 0.5} 100 ${j + 0.5}` });
    }
    for (const input of all("[name=padding]")) set(input, { max: n - 1 });
  }

  /** The inputs of the sentence and of the vector. @param {State} shown */
  function fill({ words, vectors, key, plane: axes }) {
    for (const input of all("[data-component], [data-third], [data-sentence]")) {
      if ("third" in input.dataset) set(input, { "data-component": thirdOf(axes) });
      const p = Number(input.dataset.component), isText = "sentence" in input.dataset;
      const means = isText ? split(input.value).join(" ") === words.join(" ") : input.value && Number(input.value) === vectors[key][p];
      if (!means) input.value = isText ? words.join(" ") : vectors[key][p];
      if (!isText) set(input, { "aria-label": filled(texts["number-of"], { word: words[key], p: p + 1 }) });
    }
  }

  /** @param {State} shown  @param {boolean[]} allowed  @returns {Record<string, string>} */
  function labels({ words, query, key, plane: axes }, allowed) {
    const [across, up, third] = [axes[0], axes[2], thirdOf(axes)].map((p) => `${texts.component} ${Number(p) + 1}`);
    return { query: words[query], key: words[key], masked: allowed[key] ? "" : texts.masked, third,
      empty: allowed.includes(true) ? "" : texts.empty,
      vector: filled(texts["vector-of"], { word: words[key] }), across: `${across} →`, up: `${up} →` };
  }

  /** @param {State} shown  @param {number[]} weights  @param {number[]} context */
  function outcome({ words, vectors, query }, weights, context) {
    const most = weights.indexOf(Math.max(...weights));
    const kind = !weights[most] ? "said-nothing" : most === query ? "said-itself" : "said-most";
    const values = { query: words[query], most: words[most], weight: figure(weights[most], 4),
      context: context.map((number) => figure(number, 4)).join(", ") };
    const made = [...words.keys()].filter((j) => !first.words.includes(words[j]) && String(vectors[j]) === String(madeUp(words[j])));
    const honest = made.length ? filled(texts["said-made-up"], { words: made.map((j) => words[j]).join(", ") }) : "";
    return `${filled(texts[kind], values)} ${honest}`.trim();
  }

  /** @param {number} key  @param {number[]} vector */
  function move(key, vector) {
    change({ key, vectors: state().vectors.with(key, vector) });
  }

  /** Words that stay keep their vectors; the first ones have those of the page. @param {string[]} words */
  function write(words) {
    const { words: before, vectors, query, key, padding } = state();
    const last = Math.max(1, words.length - 1);
    const [asks, looked, padded] = [query, key, padding].map((number) => Math.min(number, last));
    change({ words, query: asks, key: looked, padding: padded, vectors: words.map((word, j) => (
      vectors[before[j] === word ? j : before.indexOf(word)] ?? first.vectors[first.words.indexOf(word)] ?? madeUp(word))) });
  }

  /** @param {string} selector  @param {ParentNode} [place]  @returns {NodeListOf<HTMLInputElement>} */
  function all(selector, place = root) {
    return place.querySelectorAll(selector);
  }

  root.addEventListener("click", ({ target }) => {
    const touched = /** @type {Element} */ (target);
    const query = touched.closest("[data-query]")?.getAttribute("data-query");
    const key = touched.closest("[data-key]")?.getAttribute("data-key");
    if (query) change({ query: Number(query), key: Number(key ?? state().key) });
    else if (key) change({ [looks]: Number(key) });
  });
  table.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    /** @type {HTMLElement} */ (event.target).click();
  });
  root.addEventListener("input", ({ target }) => {
    const input = /** @type {HTMLInputElement} */ (target), { component } = input.dataset, { key, vectors } = state();
    if (input.name === "own" && !input.matches("[aria-invalid]")) change({ scale: "own" });
    if (component) move(key, vectors[key].with(Number(component), input.value ? Number(input.value) : NaN));
    if ("sentence" in input.dataset) write(split(input.value));
  });
}

/** @param {string} sentence */
function split(sentence) {
  return sentence.trim().split(/\s+/);
}

/** The component that the plane does not show. @param {string} axes */
function thirdOf(axes) {
  return "012".replace(axes[0], "").replace(axes[2], "");
}

/** A word's share, from the middle of its row to its part of the whole. @param {number[]} numbers */
function ribbon([middle, weight, from, to]) {
  const [a, b, c, d] = [middle - weight / 2, middle + weight / 2, from, to].map((y) => y.toFixed(3));
  return `M0 ${a} C50 ${a} 50 ${c} 100 ${c}L100 ${d}C50 ${d} 50 ${b} 0 ${b}Z`;
}
