// A run that is followed: events bring figures at once; what is drawn by the server is fetched again and replaced.

import { count, figure } from "./charts.js";

const AGAIN = new Set(["phase", "inventory", "note", "trial", "verdict"]);

export function follow(run, charts) {
  const id = run.dataset.run;
  let pending;
  let over = false;

  const replace = async () => {
    const answer = await fetch(`/runs/${id}`, { headers: { "x-part": "1" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-run]");
    if (!["queued", "running"].includes(fresh.dataset.state)) {
      over = true;
      location.reload();
      return;
    }
    run.dataset.state = fresh.dataset.state;
    if (run.querySelectorAll("[data-part]").length !== fresh.querySelectorAll("[data-part]").length) {
      run.replaceChildren(...fresh.childNodes);
      charts.collect();
      again();
      return;
    }
    for (const part of fresh.querySelectorAll("[data-part]")) {
      const old = run.querySelector(`[data-part="${part.dataset.part}"]`);
      if (old.contains(document.activeElement) && document.activeElement !== document.body) continue;
      if (part.dataset.part === "over-time") overTime(old, part, charts);
      else if (old.innerHTML !== part.innerHTML) keepOpen(old, part);
    }
    again();
  };
  const soon = (wait = 250) => {
    if (over) return;
    clearTimeout(pending);
    pending = setTimeout(() => replace().catch(() => soon(3000)), wait);
  };

  // What was heard since the page was made: the server stores figures a few seconds later, so that a fresh part is older.
  const heard = { readings: new Map(), progress: null };
  const read = () => {
    for (const place of run.querySelectorAll("[data-reading]")) {
      const value = heard.readings.get(`${place.dataset.metric} ${place.dataset.node}`);
      if (value !== undefined) place.textContent = figure(value / Number(place.dataset.by));
    }
  };
  const again = () => {
    read();
    if (heard.progress) confirm(...heard.progress);
  };

  const confirm = (confirmed, asked) => {
    heard.progress = [confirmed, asked];
    const bar = run.querySelector("[data-confirmed]");
    if (!bar) return;
    if (asked) bar.max = asked;
    bar.value = confirmed;
    const text = run.querySelector("[data-confirmed-text]");
    text.textContent = `${count(confirmed)} of ${count(bar.max)} ${text.dataset.unit} confirmed`;
  };
  const on = {
    samples(event) {
      for (const sample of event.samples) {
        charts.add(sample);
        if (sample.metric === "load_confirmed") confirm(sample.value);
        heard.readings.set(`${sample.metric} ${sample.node}`, sample.value);
      }
      read();
      charts.refresh();
    },
    progress: (event) => confirm(event.confirmed, event.asked),
    // Another load: what was heard of the last one is not of this one.
    phase: () => (heard.progress = null),
  };
  const take = (message) => {
    const event = JSON.parse(message.data);
    on[event.kind]?.(event);
    if (AGAIN.has(event.kind)) soon();
    // The state is moved after the verdict is stored: ask until the page is a result.
    if (event.kind === "verdict" || event.kind === "end") finish();
    if (event.kind === "end") source.close();
  };
  let finishing = false;
  const finish = () => {
    if (finishing) return;
    finishing = true;
    setInterval(() => over || soon(), 1500);
    soon();
  };

  // The stream begins with what is stored; after a break the browser asks for what it has not seen.
  const source = new EventSource(`/api/v1/runs/${id}/events`);
  source.addEventListener("message", take);
  source.addEventListener("error", () => soon(2000));
  addEventListener("pagehide", () => source.close());

  setInterval(() => {
    for (const place of run.querySelectorAll("[data-until]")) place.textContent = span(Number(place.dataset.until) - Date.now());
  }, 1000);
}

// New bands and words for charts that stay where they are; a new chart means a new part.
function overTime(old, fresh, charts) {
  const names = (part) => [...part.querySelectorAll("[data-live]")].map((chart) => chart.dataset.chart).join();
  if (names(old) !== names(fresh)) {
    old.replaceChildren(...fresh.childNodes);
    charts.collect();
    return;
  }
  for (const chart of fresh.querySelectorAll("[data-live]")) {
    const same = old.querySelector(`[data-chart="${chart.dataset.chart}"]`);
    same.dataset.live = chart.dataset.live;
    if (!same.querySelector(".drawn.taken")) same.querySelector(".drawn").innerHTML = chart.querySelector(".drawn").innerHTML;
    const [now, table] = [same.querySelector("details"), chart.querySelector("details")];
    if (now && table) {
      table.open = now.open;
      now.replaceWith(table);
    }
  }
  charts.refresh();
}

function keepOpen(old, fresh) {
  const open = [...old.querySelectorAll("details")].map((details) => details.open);
  old.replaceChildren(...fresh.childNodes);
  old.querySelectorAll("details").forEach((details, at) => (details.open = open[at] ?? details.open));
}

function span(ms) {
  const all = Math.max(0, Math.round(ms / 1000));
  const [h, m, s] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const t = "\u202f";
  if (h) return m ? `${h}${t}h ${m}${t}min` : `${h}${t}h`;
  if (m) return s ? `${m}${t}min ${s}${t}s` : `${m}${t}min`;
  return `${s}${t}s`;
}
