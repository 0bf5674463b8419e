// Charts over time with one cursor and one zoom for the page. Where uPlot is absent, the drawn ones stay.

const DASHES = [[], [6, 4], [2, 4], [9, 3, 2, 3], [12, 4], [4, 2], [1, 3]];
const sync = "rampart";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const key = (node, metric) => `${metric} ${node}`;

export function figure(value) {
  if (value == null || !Number.isFinite(value)) return "not sampled";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.0995 ? 2 : 3;
  const [whole, rest] = size.toFixed(digits).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return (value < 0 ? "\u2212" : "") + grouped + (rest ? `.${rest}` : "");
}

// Of things that come whole: no decimals.
export const count = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");

const tickLabel = (value) => {
  const text = figure(value);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};
const pad = (number) => String(number).padStart(2, "0");
function since(seconds) {
  const all = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  return h ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
}

// A null is a gap; what joining leaves undefined is only another rhythm.
function withGaps(points, by, start) {
  const steps = points.slice(1).map((point, at) => point[0] - points[at][0]).sort((a, b) => a - b);
  const limit = (steps[Math.floor(steps.length / 2)] ?? Infinity) * 3.5;
  const [x, y] = [[], []];
  points.forEach(([at, value], index) => {
    if (index && at - points[index - 1][0] > limit) {
      x.push((at + points[index - 1][0]) / 2 - start);
      y.push(null);
    }
    x.push(at - start);
    y.push(value / by);
  });
  return [x, y];
}

class TimeChart {
  constructor(element, store) {
    this.element = element;
    this.store = store;
    this.drawn = element.querySelector(".drawn");
  }

  get live() {
    return JSON.parse(this.element.dataset.live);
  }

  data() {
    const { lines, by, start_s } = this.live;
    const tables = lines.map((line) => withGaps(this.store.get(key(line.node, line.metric)) ?? [], by, start_s));
    // All charts of a page share the time from the run's start to its newest reading.
    const end = Math.max(...[...this.store.values()].map((points) => points.at(-1)?.[0] ?? 0)) - start_s;
    const [x, y] = tables[0] ?? [[], []];
    if (x.length && x[0] > 0) x.unshift(0), y.unshift(null);
    if (x.length && x.at(-1) < end) x.push(end), y.push(null);
    // 2: a gap covers what joining with another rhythm leaves open beside it.
    return uPlot.join(tables, tables.map((table) => table.map(() => 2)));
  }

  draw() {
    this.plot?.destroy();
    const live = this.live;
    const data = this.data();
    if (!data[0]?.length) return;
    const axis = { stroke: colour("--ink2"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.drawn.classList.add("taken");
    this.plot = new uPlot(
      {
        width: Math.max(240, this.drawn.clientWidth),
        height: 200,
        padding: [18, 18, 0, 0],
        cursor: { sync: { key: sync }, drag: { x: true, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.12 : 1] } },
        axes: [
          { ...axis, size: 30, incrs: [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400], values: (_, ticks) => ticks.map(since), grid: { show: false } },
          { ...axis, size: 58, values: (_, ticks) => ticks.map(tickLabel), label: live.unit || undefined, labelSize: live.unit ? 16 : 0, labelFont: "12px system-ui, sans-serif" },
        ],
        series: [
          { label: "time", value: (_, at) => (at == null ? "\u2013" : since(at)) },
          ...live.lines.map((line, at) => ({
            label: line.label,
            stroke: colour(`--s${(at % 4) + 1}`),
            width: 1.25,
            dash: DASHES[at % 7],
            points: { show: false },
            value: (_, value) => (value == null ? "\u2013" : `${figure(value)} ${live.unit}`),
          })),
        ],
        hooks: {
          drawClear: [
            (plot) => {
              const { ctx, bbox } = plot;
              ctx.save();
              ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
              ctx.textAlign = "center";
              let free = bbox.left;
              for (const band of this.live.bands) {
                const place = (at) => {
                  const x = plot.valToPos(at - live.start_s, "x", true);
                  return Math.min(bbox.left + bbox.width, Math.max(bbox.left, x));
                };
                const [from, to] = [place(band.from_s), place(band.to_s)];
                if (to <= from) continue;
                const broke = band.outcome === "broke";
                ctx.fillStyle = colour(broke ? "--bad-soft" : "--band");
                ctx.fillRect(from, bbox.top, to - from, bbox.height);
                const [middle, half] = [(from + to) / 2, ctx.measureText(band.label).width / 2];
                if (middle - half < free) continue;
                free = middle + half + 6 * devicePixelRatio;
                ctx.fillStyle = colour(broke ? "--bad-ink" : "--ink2");
                ctx.fillText(band.label, middle, bbox.top - 5 * devicePixelRatio);
              }
              ctx.restore();
            },
          ],
        },
      },
      data,
      this.drawn,
    );
    this.plot.root.setAttribute("role", "group");
    this.plot.root.setAttribute("aria-label", this.element.querySelector(".desc").textContent);
  }

  refresh() {
    if (!this.plot) return this.draw();
    const zoomed = this.plot.scales.x.min > this.plot.data[0][0];
    this.plot.setData(this.data(), !zoomed);
  }

  resize() {
    this.plot?.setSize({ width: Math.max(240, this.drawn.clientWidth), height: 200 });
  }
}

// Draws what is on the page; the answer lets a followed run add readings and new parts.
export function drawCharts(run) {
  const store = new Map();
  let charts = [];
  const ready = typeof uPlot === "function";
  const collect = () => {
    charts.forEach((chart) => chart.plot?.destroy());
    charts = [...run.querySelectorAll("[data-live]")].map((element) => new TimeChart(element, store));
    charts.forEach((chart) => chart.draw());
  };
  const load = async () => {
    const answer = await fetch(`/api/v1/runs/${run.dataset.run}/samples?max_points=1500`, { headers: { accept: "application/json" } });
    if (!answer.ok) return;
    const body = await answer.json();
    for (const series of body.series ?? body) {
      store.set(key(series.node, series.metric), series.points.map(([at, value]) => [at / 1e9, value]));
    }
    collect();
    const hint = run.querySelector(".zoom-hint");
    if (hint) hint.hidden = charts.length === 0;
  };
  if (ready) {
    load().catch((why) => console.warn("charts stay as drawn:", why.message));
    let wait;
    addEventListener("resize", () => {
      clearTimeout(wait);
      wait = setTimeout(() => charts.forEach((chart) => chart.resize()), 100);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.draw()));
  }
  return {
    add(sample) {
      const points = store.get(key(sample.node, sample.metric)) ?? [];
      const at = sample.at_ns / 1e9;
      if (points.length && at <= points[points.length - 1][0]) return;
      points.push([at, sample.value]);
      store.set(key(sample.node, sample.metric), points);
    },
    refresh: () => ready && charts.forEach((chart) => chart.refresh()),
    collect: () => ready && collect(),
  };
}
