// What a page gains with JavaScript: copy buttons, a followed run, charts with a cursor. Everything is complete without.
import { copyButtons, faultLines, fileChoice } from "./forms.js";
import { drawCharts } from "./charts.js";
import { follow } from "./live.js";

copyButtons();
faultLines();
fileChoice();
const run = document.querySelector("[data-run]");
if (run) {
  const charts = drawCharts(run);
  if (["queued", "running"].includes(run.dataset.state)) follow(run, charts);
}
