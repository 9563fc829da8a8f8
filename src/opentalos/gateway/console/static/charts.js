// Draws the charts of a page: one for each element with data-chart, from JSON of the console.
// {"times": [Unix seconds], "series": [{"name": text, "values": [number or null]}]}
"use strict";

(() => {
  const COLOURS = ["#1b6fe0", "#d9762b", "#2c9c5a", "#b24bc4", "#c43f4b", "#7a7f1f", "#1899a8", "#6b5bd2"];
  const SERIES_MAX = 24;
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

  // Times of the axis by the distance of its marks: the text, and what a new year, day adds to it.
  const day = "\n{YYYY}-{MM}-{DD}";
  const TIMES = [
    [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
    [60, "{HH}:{mm}", day, null, day, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", day, null, day, null, null, null, 1],
  ];

  const grouped = (value) => value.toLocaleString("en-US", {maximumFractionDigits: Math.abs(value) < 10 ? 2 : 0});
  const bytes = (value) => {
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
    return `${value.toLocaleString("en-US", {maximumFractionDigits: value < 10 ? 1 : 0})} ${UNITS[unit]}`;
  };
  const seconds = (value) => Math.abs(value) < 1 ? `${grouped(value * 1000)} ms` : `${grouped(value)} s`;
  const FORMATS = {number: grouped, bytes, seconds};

  // A legend may break after the separators of a name, never inside a word.
  const breakable = (name) => name.replace(/[\/._:@#+-]+(?=.)/g, "$&\u200b");

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const options = (place, found) => {
    const format = FORMATS[place.dataset.unit] || grouped;
    const shown = (_, value) => value === null || value === undefined ? "-" : format(value);
    const axis = {stroke: style("--muted"), grid: {stroke: style("--line"), width: 1}, ticks: {stroke: style("--line"), width: 1}};
    return {
      width: Math.max(place.clientWidth, 200),
      height: Number(place.dataset.height) || 220,
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
      scales: {y: {range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 0) > 0 ? most * 1.08 : 1]}},
      axes: [{...axis, values: TIMES}, {...axis, size: 74, values: (_, ticks) => ticks.map(format)}],
      series: [
        {label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}"},
        ...found.series.slice(0, SERIES_MAX).map((one, index) => ({
          label: breakable(one.name), stroke: COLOURS[index % COLOURS.length], width: 1.6, value: shown,
          points: {show: found.times.length < 3},
        })),
      ],
      cursor: {drag: {x: true, y: false}},
    };
  };

  const draw = async (place) => {
    let found;
    try {
      const reply = await fetch(place.dataset.chart, {headers: {Accept: "application/json"}, redirect: "error"});
      if (!reply.ok) throw new Error(`status ${reply.status}`);
      found = await reply.json();
    } catch {
      if (!place.drawn) {
        place.textContent = "The figures cannot be read now.";
        place.classList.add("failed");
      }
      return;
    }
    if (!found.times.length) {
      if (!place.drawn) place.textContent = "No figures for this time yet.";
      return;
    }
    const data = [found.times, ...found.series.slice(0, SERIES_MAX).map((one) => one.values)];
    if (place.drawn && place.drawn.series.length === data.length) {
      place.drawn.setData(data);
    } else {
      if (place.drawn) place.drawn.destroy();
      place.textContent = "";
      place.classList.remove("failed");
      place.drawn = new uPlot(options(place, found), data, place);
      place.dataset.ready = "yes";
    }
    place.found = found;
  };

  const again = (place) => {
    if (!place.drawn) return;
    place.drawn.destroy();
    place.drawn = null;
    void draw(place);
  };

  const start = (place) => {
    if (place.dataset.started) return;
    place.dataset.started = "yes";
    void draw(place);
    new ResizeObserver(() => {
      if (place.drawn) place.drawn.setSize({width: Math.max(place.clientWidth, 200), height: place.drawn.height});
    }).observe(place);
    const refresh = Number(place.dataset.refresh);
    if (refresh > 0) {
      const timer = setInterval(() => {
        if (!place.isConnected) clearInterval(timer);
        else if (!document.hidden) void draw(place);
      }, refresh * 1000);
    }
  };

  const all = () => document.querySelectorAll("[data-chart]").forEach(start);
  all();
  document.addEventListener("htmx:afterSettle", all);
  document.addEventListener("console:theme", () => document.querySelectorAll("[data-chart]").forEach(again));
})();
