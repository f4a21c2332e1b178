// Small helpers. All text goes through textContent or setAttribute: no markup is ever parsed from data.

const SVG = "http://www.w3.org/2000/svg";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// h("td", {class: "num"}, "5"): an HTML element; s(...): an SVG element.
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const button = (label, handler, attributes = {}) =>
  h("button", { type: "button", ...attributes, on: { click: handler } }, label);

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function announce(text) {
  $("#live").textContent = text;
}

// Build what a <details> holds the first time that it is opened.
function whenOpened(details, build) {
  const once = () => {
    if (!details.open || details.dataset.built) return;
    details.dataset.built = "yes";
    build(details);
  };
  details.addEventListener("toggle", once);
  once();
}

function offer(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function copy(text, what, source) {
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "sr", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
  }
  announce(copied ? `${what} copied` : `The browser did not allow copying: ${what}`);
  if (!source) return;
  source.dataset.label ??= source.textContent;
  source.textContent = copied ? "Copied" : "Not copied";
  setTimeout(() => (source.textContent = source.dataset.label), 1200);
}

const fileName = (...parts) =>
  parts
    .join("-")
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, "-")
    .slice(0, 100);
