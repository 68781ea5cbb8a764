// What moves with the reader: the title in the head, the list of contents, the button to the top,
// the menu, folds. Nothing is measured before the page is scrolled.
(function () {
  function all(selector) { return [...document.querySelectorAll(selector)]; }
  var drawer = document.getElementById("__drawer"), head = document.querySelector(".md-header");
  var top = document.querySelector(".md-top"), tabs = document.querySelector(".md-tabs");
  var title = document.querySelector(".md-header__title"), name = document.querySelector("article h1");
  var places = all("[data-md-component=toc]").map(function (list) {
    return [...list.querySelectorAll("a")].map(function (link) {
      return { link: link, heading: document.getElementById(decodeURIComponent(link.hash.slice(1))) };
    }).filter(function (place) { return place.heading; });
  });
  var before = 0, isDue = false;
  addEventListener("scroll", function () {
    if (!isDue) requestAnimationFrame(follow);
    isDue = true;
  }, { passive: true });

  function follow() {
    isDue = false;
    var y = scrollY, line = head.offsetHeight + 24;
    var atEnd = y + innerHeight >= document.documentElement.scrollHeight - 1;
    if (tabs) tabs.hidden = y >= 10;
    if (title && name) title.classList.toggle("md-header__title--active", name.getBoundingClientRect().bottom < head.offsetHeight);
    places.forEach(function (list) {
      var read = atEnd ? list : list.filter(function (place) { return place.heading.getBoundingClientRect().top < line; });
      list.forEach(function (place, i) {
        place.link.classList.toggle("md-nav__link--passed", i < read.length);
        place.link.classList.toggle("md-nav__link--active", i === read.length - 1);
      });
      if (read.length) center(read[read.length - 1].link);
    });
    if (top) top.hidden = !(y > 0 && y < before);
    before = y;
  }
  // In the middle of its list, if that scrolls.
  function center(link) {
    var frame = link.closest(".md-sidebar__scrollwrap");
    if (frame && frame.scrollHeight > frame.clientHeight)
      frame.scrollTop = link.getBoundingClientRect().top - frame.getBoundingClientRect().top + frame.scrollTop - frame.clientHeight / 2;
  }
  if (top) top.addEventListener("click", function () { scrollTo(0, 0); });
  addEventListener("load", function () {
    requestAnimationFrame(function () {
      all(".md-sidebar--primary a.md-nav__link--active").forEach(center);
    });
  });

  // A link to a place on the page closes the menu.
  document.addEventListener("click", function (event) {
    if (event.target.closest(".md-nav__link[href]")) drawer.checked = false;
  });
  // A fold opens for what is in it, and on paper all are open.
  function reveal() {
    var target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    var fold = target && target.closest("details:not([open])");
    if (!fold) return;
    for (; fold; fold = target.closest("details:not([open])")) fold.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  reveal();
  var opened = [];
  matchMedia("print").addEventListener("change", function (paper) {
    if (paper.matches) opened = all("article details:not([open])");
    opened.forEach(function (fold) { fold.open = paper.matches; });
  });

  // What scrolls must be within reach of the keyboard, also after the window has changed its size.
  var reach = new ResizeObserver(function (entries) {
    entries.map(function (entry) {
      var frame = entry.target.closest("code, .md-typeset__scrollwrap");
      return [frame, frame.scrollWidth > frame.clientWidth];
    }).forEach(function (measured) {
      if (measured[1]) measured[0].tabIndex = 0;
      else measured[0].removeAttribute("tabindex");
    });
  });
  all("pre > code, .md-typeset__scrollwrap, .md-typeset__scrollwrap table").forEach(function (part) { reach.observe(part); });
})();
// The keys of the theme: the page before, the page after; what is named by a label.
document.addEventListener("keydown", function (event) {
  var field = event.target.closest("input:not([type=radio]), select, textarea, [contenteditable]");
  if (field || event.metaKey || event.ctrlKey || event.altKey) return;
  var way = { p: "prev", ",": "prev", n: "next", ".": "next" }[event.key];
  var link = way && document.querySelector("link[rel=" + way + "]");
  if (link) location = link.href;
  if (event.key === "Enter" && event.target.matches("label")) event.target.click();
});
