// What every page does beyond links and forms. Pages work without it.
"use strict";

(() => {
  const root = document.documentElement;

  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;

  const switchTheme = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie =
      `console_theme=${root.dataset.theme}; Path=/console/; Max-Age=31536000; SameSite=Strict${secure}`;
    document.dispatchEvent(new CustomEvent("console:theme"));
  };

  const copy = async (button) => {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      // Without TLS a browser may refuse; then the user copies what is selected.
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if ("themeToggle" in button.dataset) switchTheme();
    if ("copy" in button.dataset) void copy(button);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const field = document.querySelector("[data-filter]");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  });

  // A page that the server could not make now is asked for again.
  const again = document.querySelector("[data-again]");
  if (again) setTimeout(() => location.reload(), Number(again.dataset.again) * 1000);

  // A page that refreshes itself says when the server does not answer, and recovers.
  const reachable = (yes) => {
    const banner = document.getElementById("unreachable");
    if (banner) banner.hidden = yes;
  };
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => reachable(false));
  }
  // Every answer comes by here, also that of a server that is about to stop or not yet whole.
  document.addEventListener("htmx:afterOnLoad", (event) => reachable(event.detail.xhr.status < 500));
  // Nothing is replaced while a user types or selects in it, and a link keeps the focus.
  let focused = null; // its URL, and its place among the links with that URL
  const alike = (href) => [...document.querySelectorAll("#live a")].filter((link) => link.getAttribute("href") === href);
  document.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    const active = document.activeElement;
    const selection = getSelection();
    const selecting = selection && !selection.isCollapsed && target.contains(selection.anchorNode);
    const typing = target.contains(active) && active.matches("input, textarea, select");
    if (selecting || typing) event.detail.shouldSwap = false;
    const href = target.contains(active) ? active.getAttribute("href") : null;
    focused = href === null ? null : {href, place: alike(href).indexOf(active)};
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (focused === null) return;
    const links = alike(focused.href);
    const same = links[focused.place] || links[0];
    if (same) same.focus({preventScroll: true});
    focused = null;
  });
})();
