// #guess: guess the kernels of each case and what limits it, and see the answer only then. Nothing leaves the page.

function askedCells() {
  const cells = index.cells.map((cell, number) => ({ ...cell, number })).filter((cell) => usable(cell) && cell.drawn);
  return cells.filter((cell, place) => cells.findIndex((other) => other.case === cell.case) === place);
}

function answerOf({ number, limiter }, kernels, limited) {
  const cell = cellOf(number);
  const verdict = (right) => h("span", { class: right ? "ok" : "no" }, right ? "as guessed" : "not as guessed");
  return h(
    "div",
    { class: "answer" },
    h("p", {}, `Guessed ${plural(kernels, "kernel")}, seen ${cell.counts}: `, verdict(kernels === cell.kernels)),
    limiter && h("p", {}, `Guessed limited by ${limited}, seen ${limiter}: `, verdict(limited === limiter)),
    h("div", { class: "strip-rows" }, stripRow(cell, "seen", cell.total || 1)),
    h("p", {}, h("a", { href: `#${cell.anchor}` }, "All of this case")),
  );
}

function guessForm(cell, limiters) {
  const kernels = h("input", { type: "number", min: 0, required: true });
  const limited = h(
    "select",
    { required: true },
    ["", ...limiters].map((name) => h("option", { value: name }, name)),
  );
  const size = $(`[id="${CSS.escape(cell.anchor)}"] .size`)?.textContent ?? "";
  const form = h(
    "form",
    { class: "guess-form" },
    h("strong", {}, visible(cell.case)),
    h("span", { class: "muted" }, size),
    h("label", {}, "kernels ", kernels),
    limiters.length > 0 && h("label", {}, "limited by ", limited),
    h("button", { class: "quiet" }, "Show"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    form.append(answerOf(cell, Number(kernels.value), limited.value));
    for (const node of [kernels, limited, $("button", form)]) node.disabled = true;
  });
  return form;
}

function showGuessing(on) {
  document.documentElement.toggleAttribute("data-guessing", on);
  if (!on || $("#guess")) return;
  const cells = askedCells();
  const limiters = [...new Set(cells.map((cell) => cell.limiter).filter((name) => name && name !== "unknown"))].sort();
  const about =
    "How many kernels does one forward run, and what limits it? What was seen is hidden until you have written both.";
  const back = h("p", {}, h("a", { href: "#summary" }, "Back to the report"));
  const forms = cells.map((cell) => guessForm(cell, limiters));
  $("#main").append(h("section", { id: "guess" }, h("h2", {}, "Guess first"), h("p", {}, about), forms, back));
}
