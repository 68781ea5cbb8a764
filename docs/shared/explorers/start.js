// Loads an explorer when it comes near the screen, or at once where the address holds a view of it.

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) wake(/** @type {HTMLElement} */ (target));
  }
}, { rootMargin: "400px" });

const asked = new URL(location.href).searchParams;
for (const root of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".explorer"))) {
  if (asked.has(root.dataset.explorer ?? "")) wake(root);
  else near.observe(root);
}

/** @param {HTMLElement} root */
async function wake(root) {
  near.unobserve(root);
  const { start } = await import(`./${root.dataset.explorer}/view.js`);
  start(root);
  delete root.dataset.asleep;
}
