// The explorer of saturation: shows the numbers, moves the paths, and lets the width be dragged.
import { figure, rewrite, set } from "../draw.js";
import { explorer, filled, inRange, numeric, oneOf, part, textsOf } from "../explorer.js";
import { shown } from "./numbers.js";

/** @typedef {import("./numbers.js").State} State */

const WIDEST = 512, OCTAVES = 9, STEPS = 4; // steps of a slider in an octave

/** @param {HTMLElement} root */
export function start(root) {
  const texts = textsOf(root), picture = part(root, ".saturation");
  const helpers = part(root, ".saturation-program").textContent ?? "";
  const sliders = /** @type {NodeListOf<HTMLInputElement>} */ (root.querySelectorAll("[data-octaves]"));
  const paths = /** @type {NodeListOf<SVGPathElement>} */ (root.querySelectorAll("[data-path]"));
  const ends = /** @type {NodeListOf<SVGElement>} */ (root.querySelectorAll("[data-name^=range]"));

  /** @type {ReturnType<typeof shown>} */
  let found;
  const { state, change } = explorer(root, {
    check(given) {
      whole(given.d_k, texts["width-label"], 1, WIDEST);
      whole(given.n, texts["number-label"], 2, 256);
      whole(given.seed, texts["sample-label"], 1, 9999);
      inRange(given.own, texts["own-label"], 0.01, 2);
      oneOf(given.factor, texts.factor, ["none", "sqrt", "inverse", "own"]);
    },
    draw(given) {
      found = shown(/** @type {State} */ (given));
      for (const path of paths) set(path, { d: found.paths[path.dataset.path ?? ""] });
      set(picture, { "data-factor": given.factor });
    },
    tell(given) {
      const now = /** @type {State} */ (given);
      for (const end of ends) set(end, { "data-digits": found.values["range-high"] < 1 ? 2 : 0 });
      rewrite(root, found.values);
      for (const slider of sliders) {
        const value = given[slider.dataset.octaves ?? ""];
        slider.value = String(STEPS * Math.log2(value));
        slider.setAttribute("aria-valuetext", String(value));
      }
      return { said: said(texts.said, now, found.values), program: program(helpers, now) };
    },
  });

  for (const slider of sliders) {
    const name = slider.dataset.octaves ?? "";
    slider.addEventListener("input", () => {
      const now = state()[name], asked = Number(slider.value), value = Math.round(2 ** (asked / STEPS));
      // Where a step is less than one, a key would otherwise change nothing.
      const least = now + Math.sign(asked - STEPS * Math.log2(now));
      change({ [name]: value === now ? least : value });
    });
  }
  // Who types a factor means to see it.
  part(root, "[name=own]").addEventListener("input", () => change({ factor: "own" }));
  root.querySelector("[data-draw]")?.addEventListener("click", () => change({ seed: state().seed % 9999 + 1 }));
  for (const plot of /** @type {NodeListOf<SVGRectElement>} */ (root.querySelectorAll("[data-drag]"))) {
    /** @param {PointerEvent} event */
    const follow = ({ clientX }) => {
      const { left, width } = plot.getBoundingClientRect();
      const across = ((clientX - left) / width * 208 - 6) / 196; // the plot has margins of 6 of its 208
      change({ d_k: Math.round(2 ** (OCTAVES * Math.min(Math.max(across, 0), 1))) });
    };
    plot.addEventListener("pointerdown", (event) => {
      plot.setPointerCapture(event.pointerId);
      follow(event);
    });
    plot.addEventListener("pointermove", (event) => {
      if (plot.hasPointerCapture(event.pointerId)) follow(event);
    });
  }
}

/** @param {unknown} value  @param {string} label  @param {number} low  @param {number} high */
function whole(value, label, low, high) {
  numeric(String(value), { label, low, high, isWhole: true });
  inRange(value, label, low, high);
}

/** @param {string} text  @param {State} state  @param {Record<string, number>} values */
function said(text, state, values) {
  const written = ["largest", "entropy", "trace"].flatMap((name) => [
    [name, figure(values[`${name}-drawn`], 3)], [`${name}Law`, figure(values[`${name}-law`], 3)]]);
  return filled(text, { ...state, c: figure(values.factor, 4), ...Object.fromEntries(written) });
}

/** @param {string} helpers the sample and the law, as the book's own check has them  @param {State} state */
function program(helpers, { d_k, factor, own, n, seed }) {
  const scale = { none: "1.0", sqrt: "d_k**-0.5", inverse: "1 / d_k", own: String(own) }[factor];
  return `import math

import torch
from attnref import score_statistics
from torch import Tensor


${helpers}

d_k, n, seed = ${d_k}, ${n}, ${seed}
c = ${scale}

numbers = normals(seed, 320 * d_k).view(d_k, 320)
q, k = numbers[:, :64].mT, numbers[:, 64 : 64 + n].mT
g = torch.zeros(64, 1, n).double()
together = score_statistics.measure(q, k, scale=c, upstream=g[:, 0])
rows = score_statistics.measure(q[:, None], k.expand(64, n, d_k), scale=c, upstream=g)
sigma = c * d_k**0.5

print("                      mean  median     law")
print(f"deviation {together.logit_variance.sqrt():16.4f} {sigma:15.4f}")
for name, row, expected in zip(
    ("largest", "entropy", "trace"),
    (rows.max_weight, rows.entropy, rows.jacobian_trace),
    law(sigma, n),
):
    print(f"{name:10}{row.mean():16.4f} {row.quantile(0.5):7.4f} {expected:7.4f}")
`;
}
