// Light or dark: as the system says, until the reader has chosen. The theme's inline script shows
// what was chosen, which is kept as the theme would keep it, before the page is painted.
(function () {
  var form = document.querySelector("form[data-md-component=palette]");
  if (!form) return;
  var choices = [...form.querySelectorAll("input")];
  var light = matchMedia("(prefers-color-scheme: light)");
  function show(choice) {
    document.body.dataset.mdColorScheme = choice.dataset.mdColorScheme;
    choices.forEach(function (each) { each.nextElementSibling.hidden = each !== choice; });
  }
  function chosen() {
    var kept = __md_get("__palette");
    return choices[kept ? kept.index : light.matches ? 0 : 1] || choices[0];
  }
  form.addEventListener("change", function (event) {
    show(event.target);
    __md_set("__palette", {
      index: choices.indexOf(event.target),
      color: { scheme: event.target.dataset.mdColorScheme },
    });
  });
  form.addEventListener("keydown", function (event) {
    if (event.key !== "Enter") return;
    var other = choices[(choices.indexOf(chosen()) + 1) % choices.length];
    other.click();
    other.focus();
  });
  light.addEventListener("change", function () { show(chosen()); });
  show(chosen());
})();
