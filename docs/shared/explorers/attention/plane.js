// The words in a plane of two of their three numbers, where each can be dragged.
import { grow, say, set } from "../draw.js";
import { part } from "../explorer.js";

/** @typedef {import("../explorer.js").State} State */
/** @typedef {import("./numbers.js").Attention} Attention */

const MIDDLE = 150, UNIT = 130; // of the drawing
const across = (/** @type {number} */ number) => (MIDDLE + UNIT * number).toFixed(1);
const up = (/** @type {number} */ number) => (MIDDLE - UNIT * number).toFixed(1);
/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
// Where a label can be beside its point, in the order of preference: its anchor and its distance.
/** @type {[string, number, number][]} */
const PLACES = [["start", 12, 4], ["end", -12, 4], ["middle", 0, -12], ["middle", 0, 20]];

/**
 * @param {HTMLElement} root  @param {() => State} now  @param {(key: number, vector: number[]) => void} move
 * @returns {(state: State, computed: Attention) => void}
 */
export function plane(root, now, move) {
  const picture = part(root, ".attention-plane svg"), points = part(picture, ".attention-words");
  const pulls = part(picture, ".attention-pulls"), arrow = part(picture, ".attention-arrow"), goal = part(picture, ".attention-goal");
  let held = -1;

  /** Moves a word in the plane; its third number stays. @param {number} key  @param {number} x  @param {number} y */
  function put(key, x, y) {
    const { vectors, plane: axes } = now();
    move(key, vectors[key].with(axes[0], rounded(x)).with(axes[2], rounded(y)));
  }

  picture.addEventListener("pointerdown", (event) => {
    held = wordOf(event);
    if (held < 0) return;
    event.preventDefault(); // or what is near would be selected as text
    const group = /** @type {HTMLElement} */ (points.children[held]);
    group.setPointerCapture(event.pointerId);
    group.focus({ preventScroll: true });
  });
  picture.addEventListener("pointermove", ({ clientX, clientY }) => {
    if (held < 0) return;
    const { left, top, width } = picture.getBoundingClientRect(), size = (2 * MIDDLE) / width;
    put(held, ((clientX - left) * size - MIDDLE) / UNIT, (MIDDLE - (clientY - top) * size) / UNIT);
  });
  for (const name of ["pointerup", "pointercancel"]) picture.addEventListener(name, () => { held = -1; });
  picture.addEventListener("focusin", (event) => {
    const key = wordOf(event);
    if (key >= 0) move(key, now().vectors[key]);
  });
  picture.addEventListener("keydown", (event) => {
    const key = wordOf(event), step = event.shiftKey ? 0.1 : 0.01, [right, upward] = ARROWS[event.key] ?? [];
    if (key < 0 || right === undefined) return;
    event.preventDefault();
    const { vectors, plane: axes } = now();
    put(key, vectors[key][axes[0]] + step * right, vectors[key][axes[2]] + step * upward);
  });

  return (state, { allowed, weights, contexts }) => {
    const { words, vectors, query, key } = state, a = Number(state.plane[0]), b = Number(state.plane[2]);
    const at = [...vectors, contexts[query]].map((vector) => [across(vector[a]), up(vector[b])]);
    const end = at[words.length].join(" "), labels = placed(at.map((point) => point.map(Number)), words);
    grow(points, words.length);
    grow(pulls, words.length);
    set(arrow, { d: `M150 150L${at[query].join(" ")}` });
    set(goal, { transform: `translate(${end})` });
    goal.toggleAttribute("hidden", !allowed[query].includes(true));
    for (const [j, word] of words.entries()) {
      const group = points.children[j], label = part(group, "text"), point = at[j].join(" ");
      say(label, word);
      set(label, { "text-anchor": labels[j][0], x: labels[j][1], y: labels[j][2] });
      set(pulls.children[j], { d: `M${point}L${end}`, "stroke-width": (16 * weights[query][j]).toFixed(2) });
      set(group, { transform: `translate(${point})`, "data-drag": j, role: "slider", tabindex: 0, "aria-label": word,
        "aria-valuemin": -1, "aria-valuemax": 1, "aria-valuenow": vectors[j][a], "aria-valuetext": vectors[j].join(", ") });
      group.toggleAttribute("data-asks", j === query);
      group.toggleAttribute("data-looked-at", j === key);
      group.toggleAttribute("data-masked", !allowed[query][j]);
    }
  };
}

/** The word that an event is about, or -1. @param {Event} event */
function wordOf({ target }) {
  return Number(/** @type {Element} */ (target).closest("[data-drag]")?.getAttribute("data-drag") ?? -1);
}

/** In hundredths and within the plane. @param {number} number */
function rounded(number) {
  return Math.round(100 * Math.min(1, Math.max(-1, number))) / 100 + 0;
}

/**
 * For each label the first place in which it covers fewest of the points and of the labels before it.
 * @param {number[][]} points of the words, and of the context  @param {string[]} words
 */
function placed(points, words) {
  const taken = points.map(([x, y]) => [x - 8, y - 8, x + 8, y + 8]);
  return words.map((word, j) => {
    const [x, y] = points[j], width = 7.5 * word.length;
    const boxes = PLACES.map(([anchor, dx, dy]) => {
      const left = x + dx - (anchor === "end" ? width : anchor === "middle" ? width / 2 : 0);
      return [left, y + dy - 11, left + width, y + dy + 3];
    });
    const costs = boxes.map((box) => taken.filter((other) => meet(box, other)).length + Number(box[0] < 0 || box[2] > 300));
    const best = costs.indexOf(Math.min(...costs));
    taken.push(boxes[best]);
    return PLACES[best];
  });
}

/** Whether two boxes share a part. @param {number[]} a  @param {number[]} b */
function meet(a, b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}
