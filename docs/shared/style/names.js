// The theme puts each code block's buttons into a <nav> without a name; landmarks need one each.
new MutationObserver(function () {
  document.querySelectorAll("nav.md-code__nav").forEach(function (nav, index) {
    var button = nav.querySelector("button[title]");
    if (button && !nav.hasAttribute("aria-label")) {
      nav.setAttribute("aria-label", button.title + " " + (index + 1));
    }
  });
}).observe(document.documentElement, { childList: true, subtree: true });
