// A meaning that is in the way can be dismissed without moving pointer or focus (WCAG 1.4.13).
document.addEventListener("keydown", function (event) {
  if (event.key !== "Escape") return;
  document.querySelectorAll(".term:hover, .term:focus-within").forEach(function (term) {
    term.classList.add("term-dismissed");
  });
});

// It may show again when the term is pointed at, or focused, anew.
["mouseout", "focusout"].forEach(function (left) {
  document.addEventListener(left, function (event) {
    var term = event.target.closest && event.target.closest(".term-dismissed");
    if (term) term.classList.remove("term-dismissed");
  });
});
