// The buttons of programs, which book/finish/slim.py puts there, copy what the reader sees; of an
// example in the reference, what is typed, without what is printed.
document.addEventListener("click", function (event) {
  var button = event.target.closest(".md-code__button");
  if (!button) return;
  var code = button.parentElement.querySelector("code"), told = document.querySelector(".md-dialog");
  code.dataset.mdCopying = "";
  var text = code.innerText.trimEnd();
  if (navigator.clipboard) {
    navigator.clipboard.writeText(text).then(tell);
  } else { // an address without https
    getSelection().selectAllChildren(code);
    if (document.execCommand("copy")) tell();
  }
  delete code.dataset.mdCopying;
  function tell() {
    told.setAttribute("role", "status");
    told.firstElementChild.textContent = document.documentElement.lang === "pt-BR" ? "Copiado" : "Copied";
    told.classList.add("md-dialog--active");
    setTimeout(function () { told.classList.remove("md-dialog--active"); }, 2000);
  }
});
