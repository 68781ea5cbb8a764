// Online softmax over blocks of keys: one query's row, and the table of which one block exists.
import { explorer, filled, inRange, oneOf, part, Refused, textsOf } from "../explorer.js";
import { figure, say, set, write } from "../draw.js";
import { blocksOf, HIGHEST, LOWEST, numbers, program, rowOf, score, sizeOf } from "./numbers.js";

/** @typedef {import("../explorer.js").State} State */
/** @typedef {import("./numbers.js").Span} Span */
/** @typedef {ReturnType<typeof numbers>} Numbers */
/** @typedef {Record<string, string>} Texts */

const MOST = 16, BAND = 4; // keys, and those of one of the tables beside each other
// Where picture.html draws the row and the table.
const LEFT = 30, WIDE = 312, ZERO = 84, UNIT = 8, FLOOR = 126, FOOT = 228, TALL = 56, LONG = 256;
const TABLE = { left: 20, top: 22, side: 144 };
const ROUND = [1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
const PAUSE = 1200; // milliseconds between two steps that play by themselves

/** @param {HTMLElement} root */
export function start(root) {
  const texts = textsOf(root), drawRow = row(root, texts), drawTable = table(root), drawNumbers = written(root, texts);
  const field = /** @type {HTMLInputElement | null} */ (root.querySelector(".blockwise-score")), play = part(root, ".blockwise-play");
  let selected = 1; // the key whose score the field shows
  /** @type {Numbers} */
  let found;
  const view = explorer(root, {
    check: (state) => check(state, texts),
    draw(state) {
      found = numbers(state);
      selected = Math.min(selected, state.keys);
      drawRow(found, selected);
      drawTable(found);
    },
    tell(state) {
      drawControls(root, texts, found);
      tell(root, "score-label", filled(texts["score-of"], { key: selected }));
      if (field) field.disabled = isForbidden(state, selected);
      if (field && document.activeElement !== field) field.value = scoreText(found.scores[selected - 1]);
      drawNumbers(found);
      return { said: said(found, texts), program: program(state) };
    },
  });

  /** @param {number} key  @param {number | null} value */
  function setScore(key, value) {
    const state = view.state();
    view.change({ edits: { ...state.edits, [`${rowOf(state)}-${key}`]: value } });
  }

  /** @param {number} by */
  function go(by) {
    const state = view.state(), count = blocksOf(state).length;
    view.change({ step: Math.min(Math.max(Math.min(state.step, count) + by, 0), count) });
  }

  listenToRow(root, view.state, setScore, (key) => {
    selected = key;
    view.change({});
  });
  field?.addEventListener("input", () => {
    const typed = field.value.trim().replace(",", ".").replace("−", "-");
    const s = /^-(∞|inf)$/i.test(typed) ? null : typed ? rounded(Number(typed) - view.state().shift) : NaN;
    setScore(selected, s);
  });
  part(root, ".blockwise-whole").addEventListener("click", ({ currentTarget, clientY }) => {
    const { top, height } = /** @type {Element} */ (currentTarget).getBoundingClientRect();
    const share = (((clientY - top) / height) * 172 - TABLE.top) / TABLE.side;
    if (share >= 0 && share < 1) view.change({ row: Math.floor(share * view.state().keys) + 1 });
  });

  let timer = 0;
  function stop() {
    if (!timer) return;
    clearInterval(timer);
    timer = 0;
    play.textContent = texts.play;
  }
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = texts.pause;
    const isAtEnd = () => view.state().step >= blocksOf(view.state()).length;
    if (isAtEnd()) view.change({ step: 0 });
    timer = window.setInterval(() => {
      go(1);
      if (isAtEnd()) stop();
    }, PAUSE);
  });
  root.addEventListener("input", stop);
  root.addEventListener("click", ({ target }) => {
    const { preset, step } = /** @type {HTMLElement} */ (target).dataset;
    if (preset) view.change(presetOf(preset));
    if (step) {
      stop();
      go(Number(step));
    }
  });
}

/**
 * @param {ParentNode} root  @param {string} selector
 * @returns {HTMLElement[]}
 */
const all = (root, selector) => Array.from(root.querySelectorAll(selector));

/** @param {string} name  @returns {State} the scores that a button gives */
const presetOf = (name) =>
  (name === "overflow" ? { preset: "mixed", shift: 1000, edits: {} } : { preset: name, shift: 0, edits: {} });

/** @param {State} state  @param {Texts} texts */
function check(state, texts) {
  const { edits, shift } = state;
  oneOf(state.preset, texts.scores, ["mixed", "last", "equal", "masked"]);
  for (const name of ["causal", "backward"]) oneOf(state[name], texts[name], [true, false]);
  for (const [name, [low, high]] of Object.entries(
    { keys: [2, MOST], block: [1, MOST], row: [1, MOST], shift: [0, 1000], step: [0, MOST] })) {
    inRange(state[name], texts[name], low, high);
    if (!Number.isInteger(state[name])) throw new Refused("not-whole", { label: texts[name], value: state[name] });
  }
  for (const [pair, value] of Object.entries(edits ?? { null: 0 })) {
    const [, i, j] = /^([1-9]\d?)-([1-9]\d?)$/.exec(pair) ?? [];
    if (!(Number(i) <= MOST && Number(j) <= MOST)) throw new Refused("bad-pair", { pair });
    // As scores are shown and typed.
    if (value !== null) inRange(value + shift, filled(texts["score-of"], { key: j }), LOWEST + shift, HIGHEST + shift);
  }
}

/** @param {State} state  @param {number} key  @returns {boolean} whether the mask hides it from the query */
const isForbidden = (state, key) => state.causal && key > rowOf(state);

/** @param {Span | undefined} block  @param {number} key */
const holds = (block, key) => block !== undefined && key >= block.first && key <= block.last;

/** @param {HTMLElement} root  @param {Texts} texts  @param {Numbers} found */
function drawControls(root, texts, { state, blocks, step }) {
  const count = blocks.length, isEdited = Object.keys(state.edits).length > 0;
  for (const button of all(root, "[data-preset]")) {
    const { preset, shift } = presetOf(button.dataset.preset ?? "");
    set(button, { "aria-pressed": String(!isEdited && preset === state.preset && shift === state.shift) });
  }
  for (const button of all(root, "[data-step]")) {
    button.toggleAttribute("disabled", step === (button.dataset.step === "1" ? count : 0));
  }
  for (const [name, max] of Object.entries({ block: state.keys, row: state.keys, step: count })) {
    for (const control of all(root, `[name="${name}"]`)) set(control, { max });
  }
  const told = { block: sizeOf(state), row: rowOf(state), shift: state.shift, step: filled(texts.of, { step, count }) };
  for (const [name, text] of Object.entries(told)) tell(root, name, String(text));
}

/** @param {number} s  @returns {number} without what adding and subtracting has left in the last digits */
const rounded = (s) => Math.round(s * 1e6) / 1e6;

/** @param {number} s  @returns {string} as a reader may type it */
const scoreText = (s) => (s === -Infinity ? "−∞" : String(rounded(s)).replace("-", "−"));

/** @param {HTMLElement} root  @param {string} name  @param {string} text */
function tell(root, name, text) {
  for (const element of all(root, `[data-of="${name}"]`)) say(element, text);
}

/**
 * The row of the chosen query.
 * @param {HTMLElement} root  @param {Texts} texts
 */
function row(root, texts) {
  const drawing = part(root, ".blockwise-row"), ticks = all(drawing, "[data-tick]");
  const [band, mu, muLabel, was, wasLabel] = ["band", "mu", "mu-label", "was", "was-label"].map(
    (name) => part(drawing, `.blockwise-${name}`));
  const keys = all(drawing, ".blockwise-key").map(
    (group) => ({ group, rects: all(group, "rect"), labels: all(group, "text") }));
  for (const { rects: [, , handle] } of keys) set(handle, { role: "slider" });
  const sums = all(drawing, ".blockwise-sum").map(
    (group) => ({ name: /** @type {"ell" | "a"} */ (group.dataset.sum), rects: all(group, "rect") }));

  /** @param {Numbers} found  @param {number} selected */
  return ({ state, values, scores, current, run, before, now }, selected) => {
    const { shift } = state, wide = WIDE / state.keys;
    keys.forEach(({ group, rects: [bar, powerBar, handle], labels }, index) => {
      const j = index + 1, s = scores[index] - shift, isNone = s === -Infinity;
      group.style.display = j <= state.keys ? "" : "none";
      if (j > state.keys) return;
      const p = values[`power-${j}`], x = LEFT + index * wide, place = { x: x + 0.16 * wide, width: 0.68 * wide };
      const kind = holds(current, j) ? "now" : p === undefined ? "later" : "past";
      set(group, { class: `blockwise-key blockwise-${kind}` });
      set(bar, { ...place, y: ZERO - (isNone ? 0 : UNIT * Math.max(s, 0)), height: isNone ? 0 : UNIT * Math.abs(s) });
      set(powerBar, { ...place, y: FOOT - TALL * (p ?? 0), height: TALL * (p ?? 0) });
      for (const label of labels) set(label, { x: x + wide / 2 });
      say(labels[2], isNone ? "×" : "");
      set(handle, { x, width: wide, tabindex: j === selected ? 0 : -1, "aria-disabled": String(isForbidden(state, j)),
        "aria-label": filled(texts["score-of"], { key: j }), "aria-valuetext": scoreText(scores[index]),
        "aria-valuemin": LOWEST + shift, "aria-valuemax": HIGHEST + shift,
        "aria-valuenow": Math.max(scores[index], LOWEST + shift) });
    });
    for (const tick of ticks) say(tick, scoreText(Number(tick.dataset.tick) + shift));
    const { first, last, isSkipped } = current ?? { first: 1, last: 0, isSkipped: false };
    set(band, { x: LEFT + (first - 1) * wide, width: (last - first + 1) * wide,
      class: `blockwise-band${isSkipped ? " blockwise-skipped" : ""}` });
    const [y, old] = [now, before].map((carried) => Math.min(ZERO - UNIT * (carried.mu - shift), FLOOR));
    set(mu, { d: `M ${LEFT} ${y} H ${LEFT + WIDE}` });
    set(was, { d: `M ${LEFT} ${old} H ${LEFT + WIDE}` });
    set(muLabel, { y: y + 3 });
    set(wasLabel, { y: old + 3, visibility: old - y < 10 ? "hidden" : "visible" });
    for (const { name, rects: [kept, added, past] } of sums) {
      const most = Math.max(...run.map((carried) => carried[name])), own = now.own?.[name] ?? 0;
      const unit = LONG / (ROUND.find((round) => round >= most) ?? most);
      set(kept, { width: unit * (now[name] - own) });
      set(added, { x: LEFT + unit * (now[name] - own), width: unit * own });
      set(past, { width: unit * before[name] });
    }
  };
}

/**
 * The table of scores, of which one block exists.
 * @param {HTMLElement} root
 */
function table(root) {
  const [cells, done, present, frames, chosen, carried] = ["cells", "done", "present", "frames", "chosen", "carried"]
    .map((name) => part(root, `svg .blockwise-${name}`));
  const { left, top, side } = TABLE;

  /** @param {Numbers} found */
  return ({ state, values, blocks, step, strip, current }) => {
    const n = state.keys, size = sizeOf(state), cell = side / n;
    /** @param {Span} rows  @param {Span} columns */
    const block = (rows, columns) => box(left + (columns.first - 1) * cell, top + (rows.first - 1) * cell,
      (columns.last - columns.first + 1) * cell, (rows.last - rows.first + 1) * cell);
    set(cells, { d: range(1, n).map((k) =>
      `M ${left} ${top + k * cell} h ${side} M ${left + k * cell} ${top} v ${side}`).join(" ") });
    const seen = blocks.slice(0, step).filter((one) => one !== current && !one.isSkipped);
    set(done, { d: seen.map((one) => block(strip, one)).join(" ") });
    set(present, { d: values["held-scores"] ? block(strip, current) : "" });
    const spans = range(0, Math.ceil(n / size)).map(
      (k) => ({ first: k * size + 1, last: Math.min((k + 1) * size, n) }));
    set(frames, { d: spans.flatMap((rows) => spans.map(
      (columns) => (state.causal && columns.first > rows.last ? "" : block(rows, columns)))).join(" ") });
    set(chosen, { y: top + (rowOf(state) - 1) * cell, height: cell });
    set(carried, { d: range(0, 3).flatMap((k) => range(strip.first - 1, strip.last).map(
      (r) => box(left + side + 11 + 15 * k, top + r * cell + 1, 11, cell - 2))).join(" ") });
  };
}

/** @param {number} from  @param {number} to  @returns {number[]} */
const range = (from, to) => Array.from({ length: to - from }, (_, index) => from + index);

/** @param {number} x  @param {number} y  @param {number} width  @param {number} height */
const box = (x, y, width, height) => `M ${x} ${y} h ${width} v ${height} h ${-width} z`;

/**
 * The numbers beside the pictures.
 * @param {HTMLElement} root  @param {Texts} texts
 */
function written(root, texts) {
  const slots = all(root, "[data-slot]"), lines = all(root, ".blockwise-history tbody tr");
  const bands = all(root, ".blockwise-four").map((band) => all(band, "tr").map((line) => all(line, "td")));

  /** @param {Numbers} found */
  return ({ state, values, blocks, step, current }) => {
    const count = blocks.length;
    for (const element of slots) {
      const { slot = "", at, digits } = element.dataset;
      const name = at ? `${slot}-${at === "now" ? step : step - 1}` : slot;
      if (values[name] !== undefined) write(element, name, values[name], Number(digits));
      else blank(element, slot === "naive-output" ? "NaN" : "");
    }
    lines.forEach((line, index) => {
      line.hidden = index > count;
      line.className = index === step ? "blockwise-current" : "";
      if (index && !line.hidden) part(line, "th").textContent = ends(blocks[index - 1]);
    });
    bands.forEach((band, place) => band.forEach((cells, kind) => cells.forEach((cell, index) => {
      const key = BAND * place + index + 1;
      if (!index && !kind) /** @type {HTMLElement} */ (cell.closest("table")).hidden = key > state.keys;
      cell.hidden = key > state.keys;
      cell.className = kind > 1 && holds(current, key) ? "blockwise-current" : "";
    })));
    part(root, ".blockwise-results").classList.toggle("blockwise-finished", step === count);
    part(root, ".blockwise-work").classList.toggle("blockwise-idle", !current || current.isSkipped);
    tell(root, "head", current ? filled(texts[current.isSkipped ? "at-skipped" : "at-block"],
      { step, count, span: span(current, texts) }) : texts["at-start"]);
  };
}

/** @param {HTMLElement} element  @param {string} text */
function blank(element, text) {
  delete element.dataset.name;
  delete element.dataset.value;
  say(element, text);
}

/** @param {Span} block */
const ends = ({ first, last }) => (first === last ? String(first) : `${first}–${last}`);

/** @param {Span} block  @param {Texts} texts */
const span = ({ first, last }, texts) => filled(texts[first === last ? "one-key" : "many-keys"], { first, last });

/** @param {Numbers} found  @param {Texts} texts */
function said({ values, blocks, step, current, before, now }, texts) {
  if (!current) return texts["said-start"];
  const count = blocks.length;
  const key = current.isSkipped ? "skipped" : values["block-largest"] === -Infinity ? "masked"
    : before.mu === -Infinity ? "first" : now.mu > before.mu ? "risen" : "same";
  const sentences = [filled(texts[`said-${key}`], { step, count, span: span(current, texts),
    was: figure(before.mu, 2), mu: figure(now.mu, 2), factor: figure(values[`factor-${step}`] ?? 1, 4),
    ell: figure(now.ell, 4), a: figure(now.a, 4) })];
  if (step === count) {
    sentences.push(now.ell ? filled(texts["said-end"], { output: figure(values.output, 4) }) : texts["said-empty"]);
  }
  if (values["naive-ell"] === Infinity && values["naive-output"] === undefined) sentences.push(texts["said-naive"]);
  return sentences.join(" ");
}

/** @param {Event} event  @returns {number} the key whose handle it is of, or NaN */
const keyOf = ({ target }) => Number(/** @type {HTMLElement} */ (target).dataset.key);

/**
 * Lets the scores be dragged and moved by keys.
 * @param {HTMLElement} root  @param {() => State} current
 * @param {(key: number, value: number | null) => void} setScore  @param {(key: number) => void} select
 */
function listenToRow(root, current, setScore, select) {
  const drawing = part(root, ".blockwise-row"), handles = all(drawing, "[data-key]");
  let dragged = 0;

  /** @param {PointerEvent} event */
  function follow({ clientY }) {
    const { top, width } = drawing.getBoundingClientRect(), y = ((clientY - top) / width) * 360;
    const s = Math.round(((ZERO - y) / UNIT) * 10) / 10;
    setScore(dragged, y > FLOOR - 5 ? null : Math.min(Math.max(s, LOWEST), HIGHEST));
  }
  function release() {
    dragged = 0;
    delete root.dataset.dragging;
  }
  drawing.addEventListener("focusin", (event) => select(keyOf(event)));
  drawing.addEventListener("pointerdown", (event) => {
    const key = keyOf(event);
    if (!key || isForbidden(current(), key)) return;
    dragged = key;
    root.dataset.dragging = "";
    handles[key - 1].setPointerCapture(event.pointerId);
    follow(event);
  });
  drawing.addEventListener("pointermove", (event) => { if (dragged) follow(event); });
  drawing.addEventListener("pointerup", release);
  drawing.addEventListener("pointercancel", release);
  drawing.addEventListener("keydown", (event) => {
    const state = current(), key = keyOf(event), s = score(state, rowOf(state), key);
    const by = { ArrowUp: 0.1, ArrowDown: -0.1, PageUp: 1, PageDown: -1, End: 99, Home: -99 }[event.key];
    const aside = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by && !aside) return;
    event.preventDefault();
    if (aside) handles[Math.min(Math.max(key + aside, 1), state.keys) - 1].focus();
    if (!by || isForbidden(state, key)) return;
    // One step below the lowest score is −∞.
    const to = rounded(Math.max(s, LOWEST - 0.1) + by * (event.shiftKey ? 10 : 1));
    setScore(key, to < LOWEST ? null : Math.min(to, HIGHEST));
  });
}
