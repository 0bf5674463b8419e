//! Small panels: one figure and its course. The figure is of the step that broke, or of now.

use super::{Input, svg};
use crate::{
    model::{Outcome, metric, metric::GENERATOR},
    report::{format, lead_node, steps, words},
};

/// One panel.
#[derive(Debug, Clone)]
pub struct Spark {
    pub title: String,
    /// The figure, for people.
    pub value: String,
    /// Its unit and of when it is.
    pub unit: String,
    pub when: String,
    /// For a script that keeps the figure fresh.
    pub node: String,
    pub metric: &'static str,
    pub by: f64,
    pub svg: String,
}

/// The panels of a run, live or over.
#[must_use]
pub fn panels(input: &Input<'_>) -> Vec<Spark> {
    let lead = lead_node(input.detail).unwrap_or_default();
    let live = !input.detail.run.state.is_over();
    let wanted: [(&str, &str); 7] = [
        ("outstanding_requests", lead.as_str()),
        ("process_cpu_share", lead.as_str()),
        if live { ("probe_ops_per_s", GENERATOR) } else { ("disk_write_bytes_per_s", lead.as_str()) },
        ("heap_after_gc_bytes", lead.as_str()),
        ("start_lag_p99_ms", GENERATOR),
        ("generator_cpu_share", GENERATOR),
        ("znodes", lead.as_str()),
    ];
    wanted.into_iter().filter_map(|(metric, node)| panel(input, metric, node)).take(4).collect()
}

fn panel(input: &Input<'_>, name: &str, node: &str) -> Option<Spark> {
    let metric = metric::find(name)?;
    let named = |any: bool| {
        input
            .series
            .iter()
            .find(|series| series.metric == name && (any || series.node == node) && !series.points.is_empty())
    };
    // Rampart's own readings may stand under any name of its own node.
    let series = named(false).or_else(|| if node == GENERATOR { named(true) } else { None })?;
    let largest = series.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let (unit, by) = format::scale(&series.unit, largest);
    let last = series.points.last()?;
    let (value, when) = if input.detail.run.state.is_over() {
        let of = steps::broken(input.detail)
            .or_else(|| input.detail.trials.iter().rev().find(|trial| trial.outcome != Outcome::Void))?;
        let mean = of.metric(&series.node, name).map_or_else(
            || mean_of(&series.points, of.measure_from_ns, of.measured_until_ns()),
            |stat| Some(stat.mean),
        );
        (mean, format!("mean at {} {}", format::count(of.load), input.detail.run.unit))
    } else {
        (Some(last.1), "now".to_owned())
    };
    let whose = if series.node == GENERATOR { "" } else { role(input, &series.node) };
    let title = if whose.is_empty() { metric.label.to_owned() } else { format!("{}, {whose}", metric.label) };
    let mut title = capital(&title);
    if name == "start_lag_p99_ms" {
        title.push_str(" of the generator");
    }
    Some(Spark {
        title,
        value: value.map_or_else(|| format::NOT_SAMPLED.to_owned(), |value| format::figure(value / by)),
        unit: unit.to_owned(),
        when,
        node: series.node.clone(),
        metric: metric.name,
        by,
        svg: draw(input, &series.points, largest),
    })
}

fn mean_of(points: &[(i64, f64)], from: i64, to: i64) -> Option<f64> {
    let inside = points.iter().filter(|(at, _)| (from..=to).contains(at)).map(|(_, value)| *value);
    let (sum, n) = inside.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (n > 0.0).then(|| sum / n)
}

fn role<'a>(input: &Input<'a>, node: &str) -> &'a str {
    let nodes = input.detail.inventory.as_ref().map(|inventory| inventory.nodes.as_slice()).unwrap_or_default();
    nodes.iter().find(|known| known.name == node).map_or("", |known| match known.role.as_str() {
        "standalone" | "unknown" => "",
        role => role,
    })
}

fn capital(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}

/// The course without words: the chart over time and its table below say the same with figures.
fn draw(input: &Input<'_>, points: &[(i64, f64)], largest: f64) -> String {
    let (width, height) = (240.0, 48.0);
    let first = points.first().map_or(0, |(at, _)| *at);
    let from = input.detail.run.started_ns.map_or(first, |started| started.min(first));
    let last = input.series.iter().filter_map(|series| series.points.last()).map(|(at, _)| *at).max().unwrap_or(from);
    let x = svg::Scale::linear(0.0, format::seconds_between(from, last).max(1.0), 0.0, width);
    let y = svg::Scale::linear(0.0, svg::headroom(largest), height - 1.0, 2.0);
    let mut bands = String::new();
    for trial in &input.detail.trials {
        let start = x.at(format::seconds_between(from, trial.started_ns));
        let end = x.at(format::seconds_between(from, trial.measured_until_ns()));
        if words::outcome(trial.outcome).0 == "broke" {
            bands.push_str(&format!(
                r#"<rect x="{start:.1}" y="0" width="{:.1}" height="{height:.0}" class="fill bad"/>"#,
                (end - start).max(1.0)
            ));
        }
        bands.push_str(&format!(r#"<path d="M{start:.1} 0V{height:.0}" class="grid"/>"#));
    }
    let line = super::time::path(points.iter().map(|(at, value)| (format::seconds_between(from, *at), *value)), &x, &y);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" preserveAspectRatio="none" class="sparkline" aria-hidden="true">{bands}<path d="M0 {0:.1}H{width:.0}" class="axis"/><path d="{line}" class="s thin c0"/></svg>"#,
        height - 1.0
    )
}
