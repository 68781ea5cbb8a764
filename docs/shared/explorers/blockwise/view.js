// Online softmax over blocks of keys: one query's row, and the table of which one block exists.
import { explorer, filled, inRange, oneOf, part, Refused, textsOf } from "../explorer.js";
import { figure, write } from "../draw.js";
import { blocksOf, HIGHEST, LOWEST, numbers, program, rowOf, score, sizeOf, stripOf } from "./numbers.js";

/** @typedef {import("../explorer.js").State} State */
/** @typedef {ReturnType<typeof numbers>} Numbers */
/** @typedef {{ first: number, last: number }} Span */

const MOST = 16; // keys
// Where picture.html draws the row and the table.
const LEFT = 30, WIDE = 312, ZERO = 84, UNIT = 8, FLOOR = 126, FOOT = 228, TALL = 56, LONG = 256;
const TABLE = { left: 20, top: 22, side: 144 };
const ROUND = [1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
const PAUSE = 1200; // milliseconds between two steps that play by themselves

/** @param {HTMLElement} root */
export function start(root) {
  const texts = textsOf(root), drawRow = row(root), drawTable = table(root), drawNumbers = written(root, texts);
  let selected = 1; // the key whose score the field shows
  const view = explorer(root, {
    check: (state) => check(state, texts),
    draw(state) {
      const found = numbers(state);
      selected = Math.min(selected, state.keys);
      drawControls(root, texts, state, found, selected);
      drawRow(state, found, selected);
      drawTable(state, found);
      drawNumbers(state, found);
      return { said: said(found, texts), program: program(state) };
    },
  });

  /** @param {number} key  @param {number | null} value  @returns {boolean} whether it could be shown */
  function setScore(key, value) {
    const state = view.state();
    return view.change({ edits: { ...state.edits, [`${rowOf(state)}-${key}`]: value } });
  }

  /** @param {number} key */
  function select(key) {
    selected = key;
    view.change({});
  }

  /** @param {number} by */
  function go(by) {
    const state = view.state(), count = blocksOf(state).length;
    view.change({ step: Math.min(Math.max(Math.min(state.step, count) + by, 0), count) });
  }

  listenToHandles(root, view.state, setScore, select);
  const field = /** @type {HTMLInputElement} */ (part(root, ".blockwise-score"));
  field.addEventListener("input", () => {
    const typed = field.value.trim().replace(",", ".").replace("−", "-");
    const isNone = /^-(∞|inf)$/i.test(typed), s = typed === "" ? NaN : Number(typed);
    const isShown = setScore(selected, isNone ? null : rounded(s - view.state().shift));
    if (!isShown) field.setAttribute("aria-invalid", "true");
  });
  // What it says again is the score that is shown, where the typed one was refused.
  field.addEventListener("blur", () => view.change({}));
  for (const button of buttons(root, "[data-preset]")) {
    button.addEventListener("click", () => view.change(presetOf(button.dataset.preset ?? "")));
  }
  for (const button of buttons(root, "[data-step]")) {
    button.addEventListener("click", () => { stop(); go(Number(button.dataset.step)); });
  }
  const whole = part(root, ".blockwise-whole");
  whole.addEventListener("click", (event) => {
    const { top, height } = whole.getBoundingClientRect(), y = ((event.clientY - top) / height) * 172;
    const at = Math.floor(((y - TABLE.top) / TABLE.side) * view.state().keys) + 1;
    if (at >= 1 && at <= view.state().keys) view.change({ row: at });
  });

  const play = part(root, ".blockwise-play");
  let timer = 0;
  function stop() {
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
}

/** @param {HTMLElement} root  @param {string} selector */
const buttons = (root, selector) => /** @type {NodeListOf<HTMLButtonElement>} */ (root.querySelectorAll(selector));

/** @param {string} name  @returns {State} the scores that a button gives */
const presetOf = (name) =>
  (name === "overflow" ? { preset: "mixed", shift: 1000, edits: {} } : { preset: name, shift: 0, edits: {} });

/** @param {State} state  @param {Record<string, string>} texts */
function check(state, texts) {
  oneOf(state.preset, texts.scores, ["mixed", "last", "equal", "masked"]);
  for (const name of ["causal", "backward"]) oneOf(state[name], texts[name], [true, false]);
  for (const [name, low, high] of /** @type {[string, number, number][]} */ (
    [["keys", 2, MOST], ["block", 1, MOST], ["row", 1, MOST], ["shift", 0, 1000], ["step", 0, MOST]])) {
    inRange(state[name], texts[name], low, high);
    if (!Number.isInteger(state[name])) throw new Refused("not-whole", { label: texts[name], value: state[name] });
  }
  const { edits } = state;
  if (typeof edits !== "object" || edits === null || Array.isArray(edits)) {
    throw new Refused("bad-edits", { example: '{"7-3": 1.5}' });
  }
  for (const [pair, value] of Object.entries(edits)) {
    const [i, j] = /^[1-9]\d?-[1-9]\d?$/.test(pair) ? pair.split("-").map(Number) : [MOST + 1, 1];
    if (i > MOST || j > MOST) throw new Refused("bad-pair", { pair });
    const { shift } = state; // in which the scores are shown and typed
    if (value !== null) inRange(value + shift, filled(texts["score-of"], { key: j }), LOWEST + shift, HIGHEST + shift);
  }
}

/** @param {State} state  @param {number} key  @returns {boolean} whether the mask hides it from the query */
const isForbidden = (state, key) => state.causal && key > rowOf(state);

/**
 * @param {HTMLElement} root  @param {Record<string, string>} texts  @param {State} state  @param {Numbers} found
 * @param {number} selected
 */
function drawControls(root, texts, state, { blocks, step }, selected) {
  const edited = Object.keys(state.edits).length > 0;
  for (const button of buttons(root, "[data-preset]")) {
    const { preset, shift } = presetOf(button.dataset.preset ?? "");
    button.setAttribute("aria-pressed", String(!edited && preset === state.preset && shift === state.shift));
  }
  for (const button of buttons(root, "[data-step]")) {
    button.disabled = step === (button.dataset.step === "1" ? blocks.length : 0);
  }
  for (const [name, most] of Object.entries({ block: state.keys, row: state.keys, step: blocks.length })) {
    /** @type {HTMLInputElement} */ (part(root, `[name="${name}"]`)).max = String(most);
  }
  tell(root, "block", String(sizeOf(state)));
  tell(root, "row", String(rowOf(state)));
  tell(root, "shift", String(state.shift));
  tell(root, "step", filled(texts.of, { step, count: blocks.length }));
  tell(root, "score-label", filled(texts["score-of"], { key: selected }));
  const field = /** @type {HTMLInputElement} */ (part(root, ".blockwise-score"));
  field.disabled = isForbidden(state, selected);
  if (document.activeElement !== field) field.value = scoreText(state, selected);
}

/** @param {number} s  @returns {number} without what adding and subtracting has left in the last digits */
const rounded = (s) => Math.round(s * 1e6) / 1e6;

/** @param {State} state  @param {number} key */
function scoreText(state, key) {
  const s = isForbidden(state, key) ? -Infinity : score(state, rowOf(state), key);
  return s === -Infinity ? "−∞" : String(rounded(s + state.shift)).replace("-", "−");
}

/** @param {HTMLElement} root  @param {string} name  @param {string} text */
function tell(root, name, text) {
  for (const element of root.querySelectorAll(`[data-of="${name}"]`)) {
    if (element.textContent !== text) element.textContent = text;
  }
}

/** @param {Element} element  @param {Record<string, string | number>} attributes */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
}

/** @param {number} s  @returns {number} its height in the row, where nothing has been added to it */
const yOf = (s) => (s === -Infinity ? FLOOR : ZERO - UNIT * s);

/**
 * The row of the chosen query.
 * @param {HTMLElement} root
 */
function row(root) {
  const drawing = part(root, ".blockwise-row");
  const keys = Array.from(drawing.querySelectorAll(".blockwise-key"), (group) => {
    const [bar, powerBar, handle] = group.querySelectorAll("rect");
    const [number, value, none] = group.querySelectorAll("text");
    handle.setAttribute("role", "slider");
    return { group: /** @type {SVGElement} */ (group), bar, powerBar, handle, number, value, none };
  });
  const texts = textsOf(root);
  const at = Object.fromEntries(["band", "was", "was-label", "mu", "mu-label"].map(
    (name) => [name, part(drawing, `.blockwise-${name}`)]));
  const ticks = /** @type {NodeListOf<SVGElement>} */ (drawing.querySelectorAll("[data-tick]"));
  const sums = Array.from(drawing.querySelectorAll(".blockwise-sum"), (group) => ({
    name: /** @type {"ell" | "a"} */ (/** @type {SVGElement} */ (group).dataset.sum),
    bars: group.querySelectorAll("rect"),
  }));

  /** @param {State} state  @param {Numbers} found  @param {number} selected */
  return (state, { values, scores, blocks, step, before, now }, selected) => {
    const wide = WIDE / state.keys, current = blocks[step - 1];
    const seen = blocks.slice(0, step).filter(({ isSkipped }) => !isSkipped);
    keys.forEach(({ group, bar, powerBar, handle, number, value, none }, index) => {
      const j = index + 1, isThere = j <= state.keys;
      group.style.display = isThere ? "" : "none";
      if (!isThere) return;
      const s = scores[index] - state.shift, p = values[`power-${j}`] ?? 0, x = LEFT + index * wide;
      const isIn = (/** @type {import("./numbers.js").Block} */ block) => j >= block.first && j <= block.last;
      const kind = current && isIn(current) ? "now" : seen.some(isIn) ? "past" : "later";
      group.setAttribute("class", `blockwise-key blockwise-${kind}`);
      set(bar, { x: x + 0.16 * wide, width: 0.68 * wide, y: s === -Infinity ? ZERO : ZERO - UNIT * Math.max(s, 0),
        height: s === -Infinity ? 0 : UNIT * Math.abs(s) });
      set(powerBar, { x: x + 0.16 * wide, width: 0.68 * wide, y: FOOT - TALL * p, height: TALL * p });
      for (const label of [number, value, none]) label.setAttribute("x", String(x + wide / 2));
      none.textContent = s === -Infinity ? "×" : "";
      set(handle, { x, width: wide, tabindex: j === selected ? 0 : -1,
        "aria-label": filled(texts["score-of"], { key: j }),
        "aria-valuemin": LOWEST + state.shift, "aria-valuemax": HIGHEST + state.shift,
        "aria-valuenow": Math.max(scores[index], LOWEST + state.shift), "aria-valuetext": figure(scores[index], 1),
        "aria-disabled": String(isForbidden(state, j)) });
    });
    for (const tick of ticks) tick.textContent = String(Number(tick.dataset.tick) + state.shift).replace("-", "−");
    at.band.setAttribute("class", `blockwise-band ${current?.isSkipped ? "blockwise-skipped" : ""}`);
    set(at.band, current ? { x: LEFT + (current.first - 1) * wide, width: (current.last - current.first + 1) * wide }
      : { x: LEFT, width: 0 });
    const y = yOf(now.mu - state.shift), old = yOf(before.mu - state.shift);
    at.mu.setAttribute("d", `M ${LEFT} ${y} H ${LEFT + WIDE}`);
    at.was.setAttribute("d", `M ${LEFT} ${old} H ${LEFT + WIDE}`);
    at["mu-label"].setAttribute("y", String(y + 3));
    set(at["was-label"], { y: old + 3, visibility: old - y < 10 ? "hidden" : "visible" });
    const run = numbers({ ...state, step: MOST }).values;
    for (const { name, bars: [kept, added, past] } of sums) {
      const most = Math.max(...blocks.map((_, index) => run[`${name}-${index + 1}`]));
      const unit = LONG / (ROUND.find((round) => round >= most) ?? most), own = values[`block-${name}`] ?? 0;
      kept.setAttribute("width", String(unit * (now[name] - own)));
      set(added, { x: LEFT + unit * (now[name] - own), width: unit * own });
      past.setAttribute("width", String(unit * before[name]));
    }
  };
}

/**
 * The table of scores, of which one block exists.
 * @param {HTMLElement} root
 */
function table(root) {
  const drawing = part(root, ".blockwise-whole");
  const [cells, done, present, frames, chosen, carried] = ["cells", "done", "present", "frames", "chosen", "carried"]
    .map((name) => part(drawing, `.blockwise-${name}`));
  const { left, top, side } = TABLE;

  /** @param {State} state  @param {Numbers} found */
  return (state, { blocks, step }) => {
    const n = state.keys, size = sizeOf(state), strip = stripOf(state), cell = side / n;
    /** @type {(rows: Span, columns: Span) => [number, number, number, number]} */
    const place = (rows, columns) => [left + (columns.first - 1) * cell, top + (rows.first - 1) * cell,
      (columns.last - columns.first + 1) * cell, (rows.last - rows.first + 1) * cell];
    const current = blocks[step - 1];
    cells.setAttribute("d", range(1, n).map((k) =>
      `M ${left} ${top + k * cell} h ${side} M ${left + k * cell} ${top} v ${side}`).join(" "));
    done.setAttribute("d", blocks.slice(0, Math.max(step - 1, 0)).filter(({ isSkipped }) => !isSkipped)
      .map((block) => box(place(strip, block))).join(" "));
    const [x, y, width, height] = current && !current.isSkipped ? place(strip, current) : [left, top, 0, 0];
    set(present, { x, y, width, height });
    const spans = range(0, Math.ceil(n / size)).map(
      (k) => ({ first: k * size + 1, last: Math.min((k + 1) * size, n) }));
    const isComputed = (/** @type {Span} */ rows, /** @type {Span} */ columns) =>
      !state.causal || columns.first <= rows.last;
    frames.setAttribute("d", spans.flatMap((rows) => spans.filter((columns) => isComputed(rows, columns))
      .map((columns) => box(place(rows, columns)))).join(" "));
    set(chosen, { y: top + (rowOf(state) - 1) * cell, height: cell });
    carried.setAttribute("d", range(0, 3).flatMap((k) => range(strip.first - 1, strip.last)
      .map((r) => box([left + side + 11 + 15 * k, top + r * cell + 1, 11, cell - 2]))).join(" "));
  };
}

/** @param {number} from  @param {number} to  @returns {number[]} */
const range = (from, to) => Array.from({ length: Math.max(to - from, 0) }, (_, index) => from + index);

/** @param {[number, number, number, number]} place */
const box = ([x, y, width, height]) => `M ${x} ${y} h ${width} v ${height} h ${-width} z`;

/**
 * The numbers beside the pictures.
 * @param {HTMLElement} root  @param {Record<string, string>} texts
 */
function written(root, texts) {
  const slots = /** @type {HTMLElement[]} */ (Array.from(root.querySelectorAll("[data-slot]")));
  const lines = Array.from(part(root, ".blockwise-history tbody").querySelectorAll("tr"));
  const frame = part(root, ".explorer-scroll"), head = part(frame, "th");
  const work = part(root, ".blockwise-work"), results = part(root, ".blockwise-results");
  const columns = Array.from(part(root, ".blockwise-keys").querySelectorAll("tr"),
    (line) => Array.from(line.cells).slice(1));

  let inSight = 0; // the first key of the block that the frame shows

  /** @param {State} state  @param {Numbers} found */
  return (state, { values, blocks, step }) => {
    const current = blocks[step - 1];
    for (const element of slots) {
      const { slot = "", at = "", digits } = element.dataset;
      const name = at ? `${slot}-${at === "now" ? step : step - 1}` : slot;
      if (values[name] !== undefined) write(element, name, values[name], Number(digits));
      else blank(element, slot === "naive-output" ? "NaN" : "");
    }
    lines.forEach((line, index) => {
      line.hidden = index > blocks.length;
      line.className = index === step ? "blockwise-current" : "";
      if (index && !line.hidden) line.cells[0].textContent = ends(blocks[index - 1]);
    });
    columns.forEach((cells, kind) => cells.forEach((cell, index) => {
      cell.hidden = index >= state.keys;
      const isNow = kind > 1 && current && index + 1 >= current.first && index + 1 <= current.last;
      cell.className = isNow ? "blockwise-current" : "";
    }));
    if (current && current.first !== inSight) { // what scrolls follows the block
      inSight = current.first;
      const from = columns[0][current.first - 1].offsetLeft - head.offsetWidth, last = columns[0][current.last - 1];
      const to = last.offsetLeft + last.offsetWidth - frame.clientWidth;
      if (from < frame.scrollLeft || to > frame.scrollLeft) frame.scrollLeft = from;
    }
    results.classList.toggle("blockwise-finished", step === blocks.length);
    work.classList.toggle("blockwise-idle", !current || current.isSkipped);
    tell(root, "head", current ? filled(texts[current.isSkipped ? "at-skipped" : "at-block"],
      { step, count: blocks.length, span: span(current, texts) }) : texts["at-start"]);
  };
}

/** @param {HTMLElement} element  @param {string} text */
function blank(element, text) {
  delete element.dataset.name;
  delete element.dataset.value;
  element.textContent = text;
}

/** @param {Span} block */
const ends = ({ first, last }) => (first === last ? String(first) : `${first}–${last}`);

/** @param {Span} block  @param {Record<string, string>} texts */
const span = ({ first, last }, texts) => filled(texts[first === last ? "one-key" : "many-keys"], { first, last });

/** @param {Numbers} found  @param {Record<string, string>} texts */
function said({ values, blocks, step, before, now }, texts) {
  if (!step) return texts["said-start"];
  const block = blocks[step - 1];
  const key = block.isSkipped ? "skipped" : values["block-largest"] === -Infinity ? "masked"
    : before.mu === -Infinity ? "first" : now.mu > before.mu ? "risen" : "same";
  const sentences = [filled(texts[`said-${key}`], { step, count: blocks.length, span: span(block, texts),
    was: figure(before.mu, 2), mu: figure(now.mu, 2), factor: figure(values[`factor-${step}`] ?? 1, 4),
    ell: figure(now.ell, 4), a: figure(now.a, 4) })];
  if (step === blocks.length) {
    sentences.push(now.ell ? filled(texts["said-end"], { output: figure(values.output, 4) }) : texts["said-empty"]);
  }
  if (values["naive-ell"] === Infinity) sentences.push(filled(texts["said-naive"], { powers: "∞/∞" }));
  return sentences.join(" ");
}

/**
 * Lets the scores be dragged and moved by arrow keys.
 * @param {HTMLElement} root  @param {() => State} current
 * @param {(key: number, value: number | null) => boolean} setScore  @param {(key: number) => void} select
 */
function listenToHandles(root, current, setScore, select) {
  const drawing = part(root, ".blockwise-row");
  const handles = /** @type {SVGElement[]} */ (Array.from(drawing.querySelectorAll("[data-key]")));
  let dragged = 0;

  /** @param {PointerEvent} event */
  function follow(event) {
    const { top, width } = drawing.getBoundingClientRect(), y = ((event.clientY - top) / width) * 360;
    const s = Math.round(((ZERO - y) / UNIT) * 10) / 10;
    setScore(dragged, y > FLOOR - 5 ? null : Math.min(Math.max(s, LOWEST), HIGHEST));
  }
  function release() {
    dragged = 0;
    delete root.dataset.dragging;
  }
  for (const handle of handles) {
    const key = Number(handle.dataset.key);
    handle.addEventListener("focus", () => select(key));
    handle.addEventListener("pointerdown", (event) => {
      if (isForbidden(current(), key)) return;
      dragged = key;
      root.dataset.dragging = "";
      handle.setPointerCapture(event.pointerId);
      follow(event);
    });
    handle.addEventListener("pointermove", (event) => { if (dragged === key) follow(event); });
    handle.addEventListener("pointerup", release);
    handle.addEventListener("pointercancel", release);
    handle.addEventListener("keydown", (event) => {
      const state = current(), s = score(state, rowOf(state), key);
      const by = { ArrowUp: 0.1, ArrowDown: -0.1, PageUp: 1, PageDown: -1 }[event.key];
      const other = handles[key - 1 + (event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0)];
      if (by !== undefined && !isForbidden(state, key)) {
        const to = Math.round((s === -Infinity ? LOWEST + by - 0.1 : s + by * (event.shiftKey ? 10 : 1)) * 10) / 10;
        setScore(key, to < LOWEST ? null : Math.min(to, HIGHEST));
      } else if (event.key === "End" && !isForbidden(state, key)) setScore(key, HIGHEST);
      else if (event.key === "Home" && !isForbidden(state, key)) setScore(key, null);
      else if (other && other !== handle && Number(other.dataset.key) <= state.keys) other.focus();
      else if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      event.preventDefault();
    });
  }
}
