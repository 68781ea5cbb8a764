// A button beside each file of code that can be taken, which copies what is in it. From a disk no
// file can be read here: there the links are what they are.
if (location.protocol !== "file:") document.querySelectorAll(".take").forEach(function (box) {
  var words = box.dataset;
  box.querySelectorAll("a[download]").forEach(function (link) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = words.copy;
    button.setAttribute("aria-label", words.copy + " " + link.textContent);
    button.addEventListener("click", function () {
      fetch(link.href)
        .then(function (answer) {
          if (!answer.ok) throw new Error(answer.status);
          return answer.text();
        })
        .then(function (text) { return navigator.clipboard.writeText(text); })
        .then(
          function () { said.textContent = words.copied + ": " + link.textContent; },
          function () { said.textContent = words.failed + ": " + link.textContent; }
        );
    });
    link.after(" ", button);
  });
  var said = document.createElement("p"); // told to those who do not see the page, too
  said.setAttribute("role", "status");
  box.append(said);
});
