// The calculator: the sizes of the model and of the machine, the chart over lengths, and its tables.
import { explorer, filled, inRange, oneOf, part, Refused, textsOf } from "../explorer.js";
import { say, set, write } from "../draw.js";
import { brief, COLUMNS, crossings, fit, now, OCTAVES, quantity, shownColumns, UNITS } from "./numbers.js";
import { programOf } from "./program.js";

/** @typedef {import("../explorer.js").State} State */

const FIELDS = ["layers", "width", "heads", "kv_heads", "head_dim"];
const LEFT = 66, RIGHT = 548, TOP = 14, BOTTOM = 250; // as docs/explorers/cost/values.py has them
const [FIRST, LAST] = [OCTAVES[0], OCTAVES[16]];
const LENGTHS = Array.from({ length: 4 * (LAST - FIRST) + 1 }, (_, place) => 2 ** (FIRST + place / 4));

/** @param {number} length */
const across = (length) => (LEFT + (Math.log2(length) - FIRST) / (LAST - FIRST) * (RIGHT - LEFT)).toFixed(1);

/** @param {HTMLElement} root */
export function start(root) {
  /** @type {(selector: string) => any[]} */
  const all = (selector) => [...root.querySelectorAll(selector)];
  const models = optionsOf("model", "sizes"), machines = optionsOf("machine", "speeds"), texts = textsOf(root);
  const memories = optionsOf("machine", "memory"), rooms = all("[data-room]"), answers = all("[data-fits]");
  const named = Object.fromEntries(all("[data-name]").map((element) => [element.dataset.name, element]));
  const controls = all(".explorer-controls [name]"), own = part(root, "[data-when='model=own']");
  const chart = part(root, ".cost-chart"), handle = part(root, ".cost-handle");
  const mark = part(root, ".cost-now"), tokens = part(root, ".cost-length");
  const dots = Object.fromEntries(COLUMNS.map((column) => [column, part(root, `[data-dot=${column}]`)]));
  let drawn = "", low = 0, high = 1; // the chart is from 10 to the low to 10 to the high

  // Before the explorer reads them: a model brings the attention that it was trained with, sizes of
  // one's own begin with those of the model before, and heads are changed together with key heads,
  // which must divide them.
  part(root, "[name=model]").addEventListener("input", (event) => {
    const { value, selectedOptions } = /** @type {HTMLSelectElement} */ (event.target), full = complete(state());
    if (value !== "own") return change({ attention: selectedOptions[0].dataset.trained });
    const sizes = FIELDS.map((field) => [field, full[field]]);
    change({ ...Object.fromEntries(sizes), parameters: Math.round(full.parameters / 1e6) / 1e3 });
  });
  own.addEventListener("input", () => {
    const typed = controls.filter((control) => own.contains(control) && control.checkValidity());
    change(Object.fromEntries(typed.map((control) => [control.name, Number(control.value)])));
  });

  const { state, change } = explorer(root, { check, draw, tell });

  /** The values of the options of a control, each with its numbers. @param {string} name  @param {string} key */
  function optionsOf(name, key) {
    return Object.fromEntries(all(`[name=${name}] option`)
      .map(({ value, dataset }) => [value, dataset[key]?.split(" ").map(Number)]));
  }

  /** @param {State} given */
  function check(given) {
    for (const { name, labels, options, min, max, step } of controls) {
      const value = given[name], label = labels[0].firstChild.textContent.trim();
      if (options) oneOf(value, label, Array.from(options, (option) => option.value));
      else inRange(value, label, Number(min), Number(max));
      if (step === "1" && !Number.isInteger(value)) throw new Refused("not-whole", { label, value });
    }
    const { heads, kv_heads } = complete(given);
    if (heads % kv_heads) throw new Refused("heads-not-shared", { heads, kv_heads });
    if (given.attention === "quantized" && given.phase === "training") throw new Refused("not-trained", {});
  }

  /** A state with the sizes of its model and the speeds of its machine. @param {State} given  @returns {State} */
  function complete(given) {
    const sizes = models[given.model] ?? [...FIELDS.map((field) => given[field]), 0, Math.round(given.parameters * 1e9)];
    const [layers, width, heads, kv_heads, head_dim, query_latent, parameters] = sizes;
    const [memory] = memories[given.machine] ?? [given.gigabytes];
    const speeds = machines[given.machine] ?? [given.speed, given.bandwidth];
    return { ...given, layers, width, heads, kv_heads, head_dim, query_latent, parameters, speeds, memory };
  }

  /** @param {State} given */
  function draw(given) {
    const full = complete(given), { n, ...rest } = full, key = JSON.stringify(rest);
    if (key !== drawn) drawLines(full);
    drawn = key;
    for (const column of shownColumns(full)) set(dots[column], { cy: up(quantity(full, column, n)) });
    set(mark, { transform: `translate(${across(n)} 0)` });
    say(tokens, String(n));
  }

  /** @param {State} given */
  function tell(given) {
    const full = complete(given), { n } = full, { found, limits } = now(full);
    for (const [name, value] of Object.entries(found)) {
      if (named[name]) write(named[name], name, value, name === "ridge" ? 1 : 6);
      if (named[name] && Number.isSafeInteger(value) && name !== "ridge") named[name].textContent = String(value);
      if (name !== "ridge") fillBrief(`${name}-brief`, value, name.split("-")[1]);
    }
    for (const column of COLUMNS) part(root, `[data-limit=${column}]`).textContent = texts[limits[column]];
    handle.setAttribute("aria-valuenow", n);
    handle.setAttribute("aria-valuetext", `${n} ${texts.tokens}: ${spoken(quantity(full, "core", n), given.quantity)}`);
    const said = Object.fromEntries(["operations", "bytes", "seconds"]
      .map((kind) => [kind, spoken(found[`core-${kind}`], kind)]));
    const [model, attention, machine] = ["model", "attention", "machine"].map((name) =>
      all(`[name=${name}] option`).find(({ value }) => value === given[name]).text);
    const fits = tellFit(full, filled(texts.asked, { ...given, model, attention, machine }));
    Object.assign(said, { model, n, phase: texts[given.phase], limit: texts[limits.core], fits });
    return { said: filled(texts.said, said), program: programOf(full) };
  }

  /** Writes whether it fits, and gives the answer. @param {State} full  @param {string} asked */
  function tellFit(full, asked) {
    const { gigabytes, rooms: counts } = fit(full), least = counts.machines;
    part(root, ".cost-asked").textContent = asked;
    for (const [name, size] of Object.entries(gigabytes)) {
      write(named[name], name, size, name === "memory-GB" ? 0 : digits(size));
    }
    for (const [name, count] of Object.entries(counts)) {
      const place = part(root, `[data-at=${name}]`), isAny = count === undefined;
      fill(place, name, count, 0, isAny ? texts["any-tokens"] : texts["tokens-each"]);
      if (!isAny) say(place, String(count)); // all digits, however large
    }
    const batch = counts["room-batch"] !== 0, some = batch || counts["room-tokens"] !== 0;
    const seen = /** @type {Record<string, boolean>} */ ({ batch, some, none: !some });
    for (const one of rooms) one.hidden = !seen[one.dataset.room];
    for (const one of answers) one.hidden = (one.dataset.fits === "yes") !== (least === 1);
    return least === 1 ? texts.fits : `${texts["fits-not"]} ${least} ${texts.machines}`;
  }

  /** What does not depend on the length. @param {State} full */
  function drawLines(full) {
    for (const node of all("[data-when]")) {
      const [name, value] = node.dataset.when.split("=");
      node.hidden = full[name] !== value;
    }
    part(root, ".cost-sizes").textContent = filled(texts.sizes, { ...full, billions: (full.parameters / 1e9).toFixed(2) });
    part(root, ".cost-overtakes").hidden = full.quantity === "cache"; // which projections do not have
    const columns = shownColumns(full);
    const every = columns.map((column) => LENGTHS.map((length) => quantity(full, column, Math.round(length))));
    low = Math.floor(Math.log10(Math.min(...every.flat())));
    high = Math.floor(Math.log10(Math.max(...every.flat()))) + 1;
    for (const column of COLUMNS) {
      const line = every[columns.indexOf(column)];
      const points = line?.map((value, place) => `${across(LENGTHS[place])} ${up(value)}`).join("L");
      part(root, `[data-line=${column}]`).setAttribute("d", points ? `M${points}` : "");
      see(part(root, `[data-dot=${column}]`), line);
      for (const length of OCTAVES.map((octave) => 2 ** octave)) {
        fillBrief(`${column}-at-${length}`, line && quantity(full, column, length), full.quantity);
      }
    }
    const { base, names, first } = UNITS[full.quantity];
    const marks = names.map((unit, power) => ({ y: Number(up(first * base ** power)), unit }))
      .filter(({ y }) => y >= TOP && y <= BOTTOM);
    all(".cost-tick").forEach((tick, place) => {
      see(tick, marks[place]);
      tick.setAttribute("transform", `translate(0 ${marks[place]?.y ?? 0})`);
      tick.lastChild.textContent = `1 ${marks[place]?.unit}`;
    });
    for (const [name, length] of Object.entries(crossings(full))) {
      const circle = part(root, `[data-crossing=${name}]`), words = length === 1 ? texts.token : texts.tokens;
      fill(part(root, `[data-at=${name}]`), name, length, 0, length ? words : texts["no-crossing"]);
      see(circle, length && length >= LENGTHS[0]);
      circle.setAttribute("cx", length ? across(length) : "0");
      circle.setAttribute("cy", length ? up(quantity(full, "core", length)) : "0");
    }
  }

  /** @param {number} value */
  function up(value) {
    return (BOTTOM - (Math.log10(value) - low) / (high - low) * (BOTTOM - TOP)).toFixed(1);
  }

  /** @param {string} name  @param {number | undefined} value  @param {string} kind */
  function fillBrief(name, value, kind) {
    const [size, unit] = value === undefined ? [undefined, ""] : brief(value, kind);
    if (named[name]) fill(named[name], name, size, digits(size ?? 0), unit);
  }

  /** @param {number} octave */
  const go = (octave) => change({ n: Math.round(2 ** Math.min(Math.max(octave, FIRST), LAST)) });

  /** @param {PointerEvent} event */
  function move({ clientX }) {
    const { left, width } = chart.getBoundingClientRect();
    const share = ((clientX - left) / width * 560 - LEFT) / (RIGHT - LEFT);
    go(Math.round(8 * (FIRST + share * (LAST - FIRST))) / 8);
  }

  chart.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    chart.setPointerCapture(event.pointerId);
    move(event);
  });
  chart.addEventListener("pointermove", (event) => { if (chart.hasPointerCapture(event.pointerId)) move(event); });
  handle.addEventListener("keydown", (event) => {
    const quarters = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1,
      Home: -99, End: 99 })[event.key] * (event.shiftKey ? 4 : 1);
    if (!quarters) return;
    event.preventDefault();
    go(Math.round(4 * Math.log2(state().n) + quarters) / 4);
  });
}

/** @param {Element} element  @param {unknown} isSeen */
function see(element, isSeen) {
  element.setAttribute("visibility", isSeen ? "inherit" : "hidden");
}

/**
 * Writes a number, or none, and what is beside it.
 * @param {HTMLElement} element  @param {string} name  @param {number | undefined} value  @param {number} places
 * @param {string} beside
 */
function fill(element, name, value, places, beside) {
  if (value !== undefined) write(element, name, value, places);
  else {
    element.replaceChildren();
    element.removeAttribute("data-name");
  }
  if (element.nextElementSibling) element.nextElementSibling.textContent = beside;
}

/** For three that matter. @param {number} size */
function digits(size) {
  return size < 10 ? 2 : size < 100 ? 1 : 0;
}

/** @param {number} value  @param {string} kind */
function spoken(value, kind) {
  const [size, unit] = brief(value, kind);
  return `${size.toFixed(digits(size))} ${unit}`.trim();
}
