// The live tail. The table has a bounded number of rows, and is changed once for each reply, so a
// fast topic costs the browser no more than a slow one. Texts become text nodes, never HTML.
"use strict";

(() => {
  const ROWS_MAX = 500;
  const POLL_MS = 1000;
  const RETRY_MS = 3000;
  const LABELS = ["Stored", "Partition", "Offset", "Key", "Data"];

  const table = document.querySelector("[data-tail]");
  if (!table) return;
  const body = table.tBodies[0];
  const state = document.getElementById("tail-state");
  const pause = document.querySelector("[data-tail-pause]");
  let after = "";
  let paused = false;
  let came = 0;
  let leftOut = 0;
  const damaged = {}; // by partition; until a restart of its server

  const rowOf = (cells) => {
    const row = document.createElement("tr");
    LABELS.forEach((label, index) => {
      const cell = document.createElement("td");
      cell.dataset.label = label;
      if (index === 1 || index === 2) cell.className = "n";
      if (index === 4) {
        cell.className = "payload";
        const text = document.createElement("pre");
        text.textContent = cells[4];
        cell.append(text);
      } else {
        cell.textContent = index === 2 ? cells[2].toLocaleString("en-US") : cells[index];
      }
      row.append(cell);
    });
    return row;
  };

  const show = (found) => {
    const newest = found.rows.slice(-ROWS_MAX).reverse();
    const rows = document.createDocumentFragment();
    for (const cells of newest) rows.append(rowOf(cells));
    body.prepend(rows);
    while (body.rows.length > ROWS_MAX) body.deleteRow(-1);
    came += found.came || 0;
    leftOut += found.left_out || 0;
    const left = leftOut ? `, ${leftOut.toLocaleString("en-US")} left out: too many at a time` : "";
    state.textContent = came
      ? `${came.toLocaleString("en-US")} messages since this page was opened${left}; the newest ${body.rows.length.toLocaleString("en-US")} are shown.`
      : "Waiting for messages.";
    Object.assign(damaged, found.damaged);
    for (const [partition, error] of Object.entries(damaged)) {
      state.textContent += ` Partition ${partition} is not followed: ${error}`;
    }
    table.dataset.came = String(came);
  };

  const poll = async () => {
    if (paused || document.hidden) {
      setTimeout(poll, POLL_MS);
      return;
    }
    let wait = POLL_MS;
    try {
      const separator = table.dataset.tail.includes("?") ? "&" : "?";
      const url = table.dataset.tail + (after ? `${separator}after=${encodeURIComponent(after)}` : "");
      const reply = await fetch(url, {headers: {"HX-Request": "true"}});
      if (reply.status === 401) {
        location.reload();
        return;
      }
      if (!reply.ok) throw new Error(`status ${reply.status}`);
      const found = await reply.json();
      after = found.after;
      show(found);
    } catch {
      state.textContent = "The server does not answer; this page tries again.";
      wait = RETRY_MS;
    }
    setTimeout(poll, wait);
  };

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
  });
  document.querySelector("[data-tail-clear]").addEventListener("click", () => body.replaceChildren());
  void poll();
})();
