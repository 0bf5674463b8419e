//! Charts, drawn by the server as SVG: they work without JavaScript, in mails and in wikis.
//! Each says in words what it shows and has its table. Adding one is a line of [`CHARTS`], and a file where it is new.

pub mod by_load;
pub mod curve;
pub mod judged;
pub mod ladder;
pub mod outstanding;
pub mod spark;
pub mod svg;
pub mod sweep;
pub mod time;

use crate::{
    report::Table,
    store::{RunDetail, Series},
};

/// What charts are drawn from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub detail: &'a RunDetail,
    pub series: &'a [Series],
    pub now_ns: i64,
}

/// A size that a chart is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The whole width of a page.
    Full,
    /// About half of it.
    Half,
    /// A phone.
    Narrow,
}

impl Size {
    #[must_use]
    pub const fn width(self) -> f64 {
        match self {
            Self::Full => 1_104.0,
            Self::Half => 536.0,
            Self::Narrow => 330.0,
        }
    }
}

/// One chart.
#[derive(Debug, Clone)]
pub struct Chart {
    pub name: &'static str,
    pub title: String,
    /// What it shows, with its figures.
    pub desc: String,
    pub svg: String,
    pub table: Option<Table>,
    /// For charts over time: what a script may draw in its place.
    pub live: Option<time::Live>,
}

/// Where a chart stands on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Alone in its row.
    Row,
    /// Beside another.
    Side,
    /// In the grid of charts over time.
    Time,
    /// Of a run with several arms.
    Sweep,
}

/// One entry of the list.
#[derive(Debug)]
pub struct Entry {
    /// The name in URLs.
    pub name: &'static str,
    pub place: Place,
    draw: Draw,
}

#[derive(Debug)]
enum Draw {
    With(fn(&Input<'_>, &Entry, Size) -> Option<Chart>),
    Time(time::Spec),
}

const fn over_time(name: &'static str, title: &'static str, metrics: &'static [&'static str]) -> Entry {
    Entry { name, place: Place::Time, draw: Draw::Time(time::Spec { title, metrics }) }
}

/// Every chart, in the order of the page.
pub const CHARTS: &[Entry] = &[
    Entry { name: "judged", place: Place::Side, draw: Draw::With(judged::draw) },
    Entry { name: "by-load", place: Place::Side, draw: Draw::With(by_load::draw) },
    Entry { name: "load-latency", place: Place::Side, draw: Draw::With(curve::latency) },
    Entry { name: "load-throughput", place: Place::Side, draw: Draw::With(curve::throughput) },
    Entry { name: "ladder", place: Place::Row, draw: Draw::With(ladder::draw) },
    Entry { name: "sweep", place: Place::Sweep, draw: Draw::With(sweep::draw) },
    Entry { name: "outstanding-by-load", place: Place::Row, draw: Draw::With(outstanding::draw) },
    over_time("probe", "Probe, operations per second", &["probe_ops_per_s"]),
    over_time("outstanding", "Outstanding requests", &["outstanding_requests"]),
    over_time("in-flight", "Operations of the load under way", &["load_in_flight"]),
    over_time("busy", "Busy servers of the simulated system", &["busy_share"]),
    over_time("request-latency", "Request latency, server's mean", &["request_latency_ms"]),
    over_time("fsync", "Log fsync, mean", &["fsync_mean_ms"]),
    over_time("cpu", "CPU, share of all cores", &["process_cpu_share", "generator_cpu_share"]),
    over_time("heap", "Heap after collection", &["heap_after_gc_bytes", "heap_max_bytes"]),
    over_time("pauses", "Time in collection pauses", &["gc_pause_share"]),
    over_time("memory", "Memory", &["memory_bytes"]),
    over_time("disk", "Disk", &["disk_write_bytes_per_s", "disk_read_bytes_per_s"]),
    over_time("network", "Network", &["net_in_bytes_per_s", "net_out_bytes_per_s"]),
    over_time("transactions", "Transactions", &["transactions_per_s"]),
    over_time("load-rate", "Traffic of the load, achieved", &["load_writes_per_s", "load_reads_per_s"]),
    over_time("start-lag", "Start lag of the generator, p99", &["start_lag_p99_ms"]),
];

/// The metrics that charts over time and sparklines read; a page asks the store for these.
#[must_use]
pub fn metrics() -> Vec<&'static str> {
    let mut all: Vec<&'static str> = CHARTS
        .iter()
        .flat_map(|entry| match &entry.draw {
            Draw::Time(spec) => spec.metrics,
            Draw::With(_) => &[],
        })
        .copied()
        .collect();
    all.push("load_confirmed");
    all
}

/// The chart of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    CHARTS.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// The chart at one size, or nothing where the run has nothing to show in it.
    #[must_use]
    pub fn draw(&self, input: &Input<'_>, size: Size) -> Option<Chart> {
        match &self.draw {
            Draw::With(draw) => draw(input, self, size),
            Draw::Time(spec) => time::draw(input, self, spec, size),
        }
    }

    /// The chart drawn wide and narrow, for a page that shows the one that fits.
    #[must_use]
    pub fn both(&self, input: &Input<'_>) -> Option<Chart> {
        let wide = if matches!(self.place, Place::Row | Place::Sweep) { Size::Full } else { Size::Half };
        let mut chart = self.draw(input, wide)?;
        if let Some(narrow) = self.draw(input, Size::Narrow) {
            chart.svg.push_str(&narrow.svg);
        }
        Some(chart)
    }

    /// The id of an SVG on a page, and its class: which of the two sizes it is.
    pub(crate) fn id_and_class(&self, size: Size) -> (String, &'static str) {
        match size {
            Size::Full | Size::Half => (format!("chart-{}", self.name), "wide"),
            Size::Narrow => (format!("chart-{}-narrow", self.name), "narrow"),
        }
    }
}

/// A chart as a file of its own, with its colours inside.
#[must_use]
pub fn standalone(chart: &Chart) -> String {
    let style =
        concat!("<style>", include_str!("standalone.css"), include_str!("../../../static/chart.css"), "</style>");
    chart.svg.replacen("</desc>", &format!("</desc>{style}<rect width=\"100%\" height=\"100%\" class=\"paper\"/>"), 1)
}
