// The other language, and another version, opens at the section that is being read, whose id is the
// same there; the language is the one in which the site opens next time.
document.querySelectorAll(".md-select__link").forEach(function (link) {
  link.addEventListener("click", function () {
    var read = [...document.querySelectorAll("article :is(h2, h3)[id]")].filter(
      function (heading) { return heading.getBoundingClientRect().top < innerHeight / 3; }
    );
    link.hash = scrollY > 0 && read.length ? read.pop().id : "";
    if (link.hreflang) try {
      localStorage.setItem("attnref.language", link.hreflang);
    } catch { /* where nothing may be kept */ }
  });
});
