//! A run as it goes on, on the terminal: one bar for the phase, one line a finished trial.

use std::{fmt::Write as _, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    model::{Arm, Certainty, Outcome, Phase, RunEvent, Trial, Verdict},
    report,
    store::RunDetail,
};

/// What is shown while a run goes on.
pub(super) struct Live {
    bar: ProgressBar,
    quiet: bool,
    unit: String,
    /// The server that tables show first: the leader, or the only one.
    node: String,
    header: bool,
    arms: Vec<Arm>,
    /// The arm that was told last.
    arm: Option<u32>,
}

/// Probe operations that have a column.
const SHOWN: [&str; 3] = ["create", "set", "get"];

impl Live {
    pub(super) fn new(quiet: bool) -> Self {
        let bar =
            if quiet { ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()) } else { ProgressBar::new(1) };
        let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len} s");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, quiet, unit: String::new(), node: String::new(), header: false, arms: Vec::new(), arm: None }
    }

    pub(super) fn begin(&mut self, detail: &RunDetail) {
        self.unit.clone_from(&detail.outline.unit);
        self.arms.clone_from(&detail.outline.arms);
        let minutes = detail.outline.longest_s.div_ceil(60);
        let (id, scenario, target) = (detail.run.id, &detail.outline.scenario, &detail.outline.target);
        self.note(&format!("run {id}: {scenario} on {target}, at the longest {minutes} min"));
    }

    /// A line above the bar.
    #[expect(clippy::print_stderr, reason = "progress belongs to standard error")]
    pub(super) fn note(&self, text: &str) {
        if self.quiet {
            return;
        }
        // A bar that is not drawn (no terminal) swallows lines; the log of a pipeline must have them all the same.
        if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    pub(super) fn show(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Phase { at_ns, phase, arm, step, trial, load, until_ns } => {
                self.begin_arm(*arm);
                let what = match phase {
                    Phase::Filling | Phase::Settling | Phase::Measuring | Phase::Judging => {
                        let again = if *trial > 1 { " once more" } else { "" };
                        format!("step {step}: {} {load} {}{again}", phase.as_str(), self.unit)
                    }
                    Phase::Acting | Phase::Rejoining => {
                        format!("step {step}: {} at {load} {}", report::words::phase(*phase), self.unit)
                    }
                    Phase::WarmingUp => "warming up".to_owned(),
                    Phase::Waiting | Phase::Launching | Phase::Preflight | Phase::Cleaning => phase.as_str().to_owned(),
                };
                let seconds = until_ns.map_or(0, |until| u64::try_from((until - at_ns) / 1_000_000_000).unwrap_or(0));
                self.bar.set_message(what);
                self.bar.reset();
                self.bar.set_length(seconds.max(1));
                self.bar.enable_steady_tick(Duration::from_millis(200));
            }
            RunEvent::Samples { .. } => {
                let elapsed = self.bar.elapsed().as_secs();
                self.bar.set_position(elapsed.min(self.bar.length().unwrap_or(1)));
            }
            RunEvent::Note { text, .. } => self.note(text),
            RunEvent::Trial { trial, .. } => self.trial(trial),
            RunEvent::Inventory { inventory, .. } => self.node = report::lead(inventory).unwrap_or_default(),
            RunEvent::Launched { .. }
            | RunEvent::Root { .. }
            | RunEvent::Progress { .. }
            | RunEvent::Verdict { .. } => {}
        }
    }

    /// Names an arm when it begins.
    fn begin_arm(&mut self, number: u32) {
        if self.arm.replace(number) != Some(number)
            && let Some(arm) = self.arms.iter().find(|arm| arm.number == number)
        {
            self.note(&format!("arm {number}: {}", arm.label()));
        }
    }

    fn trial(&mut self, trial: &Trial) {
        if !self.header {
            self.header = true;
            self.note(&heading());
        }
        self.note(&line(trial, &self.node));
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn heading() -> String {
    let mut text = format!(
        "{:>4} {:>7} {:<9} {:>9} {:>9} {:>8} {:>6} {:>7}",
        "step", "load", "outcome", "znodes", "watches", "conns", "CPU %", "heap %"
    );
    for operation in SHOWN {
        let _ = write!(text, " {:>8}", format!("{operation}/s"));
    }
    text
}

/// One trial as a line; what was not read is a dash, never a zero.
fn line(trial: &Trial, node: &str) -> String {
    let metric = |name: &str| trial.metric(node, name);
    // Watches and connections are each server's own: the line shows those of all.
    let held = |what: &str| trial.census.get(what).map(|count| *count as f64);
    let whole = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
    let heap =
        metric("heap_after_gc_bytes").zip(metric("heap_max_bytes")).map(|(used, max)| used.last / max.last * 100.0);
    let mut text = format!(
        "{:>4} {:>7} {:<9} {:>9} {:>9} {:>8} {:>6} {:>7}",
        trial.step,
        trial.load,
        outcome(trial.outcome),
        whole(held("znodes")),
        whole(held("watches")),
        whole(held("connections")),
        whole(metric("process_cpu_share").map(|s| s.mean * 100.0)),
        whole(heap),
    );
    for operation in SHOWN {
        let rate = trial.operation(operation).filter(|stat| stat.done > 0).map(|stat| stat.ops_per_s);
        let _ = write!(text, " {:>8}", whole(rate));
    }
    text
}

/// The outcome in a word.
const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Baseline => "baseline",
        Outcome::Held => "held",
        Outcome::Broke => "broke",
        Outcome::Void => "void",
        Outcome::Undecided => "undecided",
    }
}

/// The verdict for people.
pub(super) fn verdict(verdict: &Verdict) -> String {
    let mut text = format!("\n{}\n", verdict.sentence);
    let _ =
        writeln!(text, "status {}, stop code {}, baseline: {}", verdict.status, verdict.stop_code, verdict.baseline);
    for evidence in &verdict.evidence {
        let certainty = match evidence.certainty {
            Certainty::RuledOut => "ruled out",
            Certainty::Strong | Certainty::Likely | Certainty::Weak => evidence.certainty.as_str(),
        };
        let since = evidence.since_step.map_or_else(String::new, |step| format!("  (from step {step})"));
        let _ = writeln!(text, "  {certainty:<9}  {}{since}", evidence.text);
    }
    let validity = &verdict.validity;
    let lag =
        validity.start_lag_p99_us.map_or_else(|| "not sampled".to_owned(), |us| format!("{:.1} ms", us as f64 / 1e3));
    let cpu = validity.cpu_share.map_or_else(|| "not sampled".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let _ = writeln!(
        text,
        "generator {}: start lag p99 {lag}, CPU {cpu}{}",
        if validity.valid { "valid" } else { "not fit to judge" },
        if validity.shared_machine { "; it shared its machine with the target" } else { "" }
    );
    text
}
