// What the theme leaves out.
// Each code block's buttons are in a <nav> without a name; landmarks need one each.
new MutationObserver(function () {
  document.querySelectorAll("nav.md-code__nav").forEach(function (nav, index) {
    var button = nav.querySelector("button[title]");
    if (button && !nav.hasAttribute("aria-label")) {
      nav.setAttribute("aria-label", button.title + " " + (index + 1));
    }
  });
  // What scrolls must be within reach of the keyboard.
  document.querySelectorAll(".md-typeset__scrollwrap").forEach(function (table) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  });
}).observe(document.documentElement, { childList: true, subtree: true });
