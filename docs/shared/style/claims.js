// The mark of a claim opens its entry in place: the statement, its pages, and the test with its code.
// Without this script, or where the page of claims cannot be read, it is the link that it was.
document.addEventListener("click", function (event) {
  var link = event.target.closest("a.claim-test");
  if (!link || location.protocol === "file:" || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  fetch(link.href)
    .then(function (answer) { return answer.text(); })
    .then(function (html) {
      var there = new DOMParser().parseFromString(html, "text/html");
      var entry = there.getElementById(link.hash.slice(1));
      entry.querySelectorAll("a[href]").forEach(function (inside) {
        inside.href = new URL(inside.getAttribute("href"), link.href);
      });
      entry.querySelectorAll("details").forEach(function (code) { code.open = true; });
      entry.removeAttribute("id");
      var dialog = document.createElement("dialog"), close = document.createElement("button");
      dialog.className = "claim-dialog md-typeset";
      dialog.setAttribute("aria-label", link.title);
      close.type = "button";
      close.textContent = "×";
      close.setAttribute("aria-label", document.documentElement.lang === "pt-BR" ? "Fechar" : "Close");
      close.addEventListener("click", function () { dialog.close(); });
      dialog.addEventListener("click", function (event) {
        if (event.target === dialog) dialog.close();
      });
      dialog.addEventListener("close", function () { dialog.remove(); });
      dialog.append(close, entry);
      document.body.append(dialog);
      dialog.showModal();
    })
    .catch(function () { location = link.href; });
});
