// Starts the page: permalinks, contents, theme, and what each part makes when it is opened.

// #case-NAME, #case-NAME~RUN, #case-NAME~RUN~kN, #compare:RUN/CASE:RUN/CASE, or any section; behind a question mark what
// is chosen in the table of cases.
function follow() {
  hideTip();
  let hash;
  try {
    hash = decodeURIComponent(location.hash.slice(1).split("?")[0]);
  } catch {
    return;
  }
  showGuessing(hash === "guess");
  if (hash.startsWith("compare:")) return openComparison(location.hash.split("?")[0]);
  if (cases.shown.size && !location.hash.includes("?")) remember(hash);
  const [name, run, kernel] = hash.split("~");
  const details = document.getElementById(name);
  if (!details?.classList.contains("case")) return location.hash.includes("?") && details?.scrollIntoView();
  details.open = true;
  openBelow(details, document.getElementById(`${name}~${run}`));
  if (!details.dataset.built) {
    details.dataset.built = "yes";
    buildLook(details);
  }
  const number = index.cells.findIndex((cell) => cell.anchor === `${name}~${run}`);
  const look = $(".case-look", details);
  if (number >= 0 && $(`[data-number="${number}"]`, look) && Number(look.dataset.shown) !== number)
    chooseRun(look, number);
  for (const row of $$("tr.target")) row.classList.remove("target");
  const target = kernel ? document.getElementById(hash) : run ? document.getElementById(`${name}~${run}`) : details;
  target?.closest("tr")?.classList.add("target");
  (target ?? details).scrollIntoView({ block: target === details ? "start" : "center", behavior: "instant" });
}

function startTheme() {
  const toggle = $("#theme");
  const root = document.documentElement;
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  try {
    const kept = localStorage.getItem("kernelbook-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch {
    // a page without storage follows the system
  }
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    announce(`${root.dataset.theme} theme`);
    try {
      localStorage.setItem("kernelbook-theme", root.dataset.theme);
    } catch {
      // kept for this visit only
    }
  });
}

function startContents() {
  fadeWhereMore($(".masthead nav"));
  const links = new Map($$(".masthead nav a").map((link) => [link.hash.slice(1), link]));
  const visibleSections = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        const link = links.get(entry.target.id);
        if (!link) continue;
        link.setAttribute("aria-current", "true");
        const nav = link.parentElement;
        nav.scrollLeft = link.offsetLeft - nav.offsetLeft - nav.clientWidth / 2;
      }
    },
    { rootMargin: "-20% 0px -70% 0px" },
  );
  for (const section of $$("main > section")) visibleSections.observe(section);
}

function permalink(heading, id) {
  heading.append(h("a", { class: "permalink", href: `#${id}`, "aria-label": "Link to this section" }, "#"));
}

// Paper has all that is folded on the screen.
function startPrinting() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = $$("details:not([open])");
    for (const details of opened) details.open = true;
    for (const details of opened.filter((each) => each.matches(".case:not([data-built])"))) {
      details.dataset.built = "yes";
      buildLook(details);
    }
    drawLanesAgain(PAPER_WIDTH);
  });
  addEventListener("afterprint", () => {
    drawLanesAgain(null);
    for (const details of opened) details.open = false;
  });
}

// Tables of folded cases are made while the browser has nothing else to do, so that its own search finds what is in them
// (it opens a <details> in which it finds something).
function buildWhenIdle(folded) {
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  const next = () => {
    const details = folded.find((each) => !each.dataset.built);
    if (!details) return;
    details.dataset.built = "yes";
    buildLook(details);
    idle(next);
  };
  idle(next);
}

function start() {
  $$(".strip-bar").forEach(enhanceStrip);
  $$(".spread .plot").forEach(enhanceSamples);
  $$("figure.chart").forEach(chartTools);
  for (const details of $$("details.case")) whenOpened(details, buildLook);
  for (const box of $$(".table")) if (!box.closest("details.case")) enhanceTable(box);
  for (const details of $$("details.case"))
    details.addEventListener("toggle", () => $$(".table", details).forEach(enhanceTable), { once: true });
  for (const section of $$("main > section[id] > h2[id]")) permalink(section, section.parentElement.id);
  startCases();
  startCompare();
  startTheme();
  startPrinting();
  startContents();
  addEventListener("hashchange", follow);
  addEventListener("scroll", hideTip, { passive: true });
  if (location.hash) follow();
  buildWhenIdle($$("details.case"));
  document.documentElement.dataset.ready = "yes";
}

start();
