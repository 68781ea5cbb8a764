// What the theme leaves out.
// What scrolls must be within reach of the keyboard, also after the window has changed its size.
var known = new WeakSet();
var reach = new ResizeObserver(function (entries) {
  entries.forEach(function (entry) {
    var frame = entry.target.closest(".md-typeset__scrollwrap");
    if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  });
});
new MutationObserver(function () {
  // Each code block's buttons are in a <nav> without a name; landmarks need one each.
  document.querySelectorAll("nav.md-code__nav").forEach(function (nav, index) {
    var button = nav.querySelector("button[title]");
    if (button && !nav.hasAttribute("aria-label")) {
      nav.setAttribute("aria-label", button.title + " " + (index + 1));
    }
  });
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset__scrollwrap table").forEach(
    function (part) {
      if (!known.has(part)) reach.observe(part);
      known.add(part);
    }
  );
}).observe(document.documentElement, { childList: true, subtree: true });
