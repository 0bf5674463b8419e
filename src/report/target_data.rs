//! The target-data table of the source report: one row a step, what the target held and what it cost.

use super::{Cell, Column, Mark, Table, format, lead_node, steps, words};
use crate::{
    model::{Trial, metric},
    store::RunDetail,
};

/// How a metric stands in the table.
#[derive(Debug, Clone, Copy)]
struct Field {
    metric: &'static str,
    id: &'static str,
    label: &'static str,
    unit: &'static str,
    /// Stored values are divided by this.
    by: f64,
    read: Read,
}

/// Which figure of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// The last reading, with the increment over the step before.
    Total,
    /// The last reading.
    Last,
    Mean,
    /// By how much a counter rose.
    Rose,
}

const fn field(
    metric: &'static str,
    id: &'static str,
    label: &'static str,
    unit: &'static str,
    by: f64,
    read: Read,
) -> Field {
    Field { metric, id, label, unit, by, read }
}

/// The columns, in the order of the source report.
const FIELDS: &[Field] = &[
    field("znodes", "znodes", "znodes", "", 1.0, Read::Total),
    field("watches", "watches", "watches", "", 1.0, Read::Total),
    field("connections", "connections", "connections", "", 1.0, Read::Total),
    field("snapshot_bytes", "snapshot_mb", "snapshot", "MB", 1e6, Read::Last),
    field("snapshot_interval_s", "snapshot_interval_s", "snapshot every", "s", 1.0, Read::Last),
    field("snapshots", "snapshots", "snapshots", "in it", 1.0, Read::Rose),
    field("outstanding_requests", "outstanding_requests_mean", "outstanding", "mean", 1.0, Read::Mean),
    field("process_cpu_share", "cpu_percent", "CPU", "%", 0.01, Read::Mean),
    field("memory_bytes", "memory_gb", "memory", "GB", 1e9, Read::Mean),
    field("net_in_bytes_per_s", "net_in_mb_per_s", "net in", "MB/s", 1e6, Read::Mean),
    field("net_out_bytes_per_s", "net_out_mb_per_s", "net out", "MB/s", 1e6, Read::Mean),
    field("disk_read_bytes_per_s", "disk_read_kb_per_s", "disk read", "kB/s", 1e3, Read::Mean),
    field("disk_write_bytes_per_s", "disk_write_mb_per_s", "disk write", "MB/s", 1e6, Read::Mean),
];

/// The columns of a simulated system.
const OF_SIM: &[Field] = &[
    field("requests_per_s", "requests_per_s", "requests", "per s", 1.0, Read::Mean),
    field("outstanding_requests", "outstanding_requests_mean", "outstanding", "mean", 1.0, Read::Mean),
    field("busy_share", "busy_percent", "busy", "%", 0.01, Read::Mean),
];

fn fields(detail: &RunDetail) -> &'static [Field] {
    if detail.outline.target_kind == "sim" { OF_SIM } else { FIELDS }
}

/// The table of the leader, or of the only server.
#[must_use]
pub fn of_lead(detail: &RunDetail) -> Table {
    of_node(detail, &lead_node(detail).unwrap_or_default())
}

/// The table of one server.
#[must_use]
pub fn of_node(detail: &RunDetail, node: &str) -> Table {
    let mut columns = vec![Column::words("step", "step")];
    columns.extend(figures(detail));
    let title = match role(detail, node) {
        "" | "standalone" | "unknown" => "Target at each step".to_owned(),
        role => format!("Target at each step, {role} {node}"),
    };
    let mut table = Table::new("target-data", title, columns);
    rows(detail, node, |trial, cells| {
        let (word, mark) = words::outcome(trial.outcome);
        let mut row = vec![Cell::text(words::step(trial, &detail.run.unit)).suffix(word).mark(mark)];
        row.extend(cells);
        table.push(row_mark(mark), row);
    });
    notes(detail, &mut table);
    table
}

/// All servers, one row a step and server, with step and outcome in columns of their own.
#[must_use]
pub fn of_all(detail: &RunDetail) -> Table {
    let mut columns = vec![
        Column::figures("step", "step", ""),
        Column::figures(&format!("load_{}", detail.run.axis), "load", &detail.run.unit),
        Column::words("outcome", "outcome"),
        Column::words("node", "server"),
    ];
    columns.extend(figures(detail));
    let mut table = Table::new("target-data", "Target at each step, all servers", columns);
    for node in nodes(detail) {
        rows(detail, &node, |trial, cells| {
            let (word, mark) = words::outcome(trial.outcome);
            let mut row = vec![
                Cell::count(u64::from(trial.step)),
                Cell::count(trial.load),
                Cell::text(word),
                Cell::text(node.clone()),
            ];
            row.extend(cells);
            table.push(row_mark(mark), row);
        });
    }
    table
}

/// The servers of a run: of its inventory, else those with readings.
#[must_use]
pub fn nodes(detail: &RunDetail) -> Vec<String> {
    let known: Vec<String> =
        detail.inventory.iter().flat_map(|inventory| inventory.nodes.iter().map(|node| node.name.clone())).collect();
    if !known.is_empty() {
        return known;
    }
    let mut seen: Vec<String> =
        detail.trials.iter().flat_map(|trial| trial.target_nodes().map(|(node, _)| node.to_owned())).collect();
    seen.sort();
    seen.dedup();
    seen
}

/// The columns without increments, for rows that do not follow from one another.
pub(super) fn plain_columns() -> impl Iterator<Item = Column> {
    FIELDS.iter().map(|field| Column::figures(field.id, field.label, field.unit))
}

/// A cell of [`plain_columns`], by its place: things are counted, the rest is a figure.
pub(super) fn plain_cell(at: usize, value: Option<f64>) -> Cell {
    let counts = FIELDS.get(at).is_some_and(|field| field.read == Read::Total);
    if counts { Cell::counted(value.map(f64::round)) } else { Cell::sampled(value) }
}

/// What stands in [`plain_columns`] for one trial of one server.
pub(super) fn figures_of(trial: &Trial, node: &str) -> Vec<Option<f64>> {
    FIELDS.iter().map(|field| read(trial, node, field)).collect()
}

fn figures(detail: &RunDetail) -> impl Iterator<Item = Column> {
    fields(detail).iter().map(|field| {
        let column = Column::figures(field.id, field.label, field.unit);
        if field.read == Read::Total { column.with_increment() } else { column }
    })
}

fn rows(detail: &RunDetail, node: &str, mut row: impl FnMut(&Trial, Vec<Cell>)) {
    let mut before: Option<&Trial> = None;
    for trial in steps::representative(detail) {
        let cells = fields(detail).iter().map(|field| {
            let now = read(trial, node, field);
            let increment = (field.read == Read::Total)
                .then(|| now.zip(before.and_then(|trial| read(trial, node, field))).map(|(now, was)| now - was))
                .flatten();
            let whole = matches!(field.read, Read::Total | Read::Rose);
            if whole { Cell::counted(now) } else { Cell::sampled(now) }.increment(increment)
        });
        row(trial, cells.collect());
        before = Some(trial);
    }
}

/// What a server's host tells where its process cannot be read.
const OF_HOST: &[(&str, &str)] = &[
    ("process_cpu_share", "host_cpu_share"),
    ("memory_bytes", "host_memory_bytes"),
    ("net_in_bytes_per_s", "host_net_in_bytes_per_s"),
    ("net_out_bytes_per_s", "host_net_out_bytes_per_s"),
    ("disk_read_bytes_per_s", "host_disk_read_bytes_per_s"),
    ("disk_write_bytes_per_s", "host_disk_write_bytes_per_s"),
];

/// The host's metric that stands in for one of the process; `None` where the process itself was read.
fn stand_in(trial: &Trial, node: &str, metric: &str) -> Option<&'static str> {
    let (_, host) = OF_HOST.iter().find(|(process, _)| *process == metric)?;
    (trial.metric(node, metric).is_none() && trial.metric(node, host).is_some()).then_some(*host)
}

fn read(trial: &Trial, node: &str, field: &Field) -> Option<f64> {
    let metric = stand_in(trial, node, field.metric).unwrap_or(field.metric);
    let stat = trial.metric(node, metric)?;
    let figure = match field.read {
        Read::Total | Read::Last => stat.last,
        Read::Mean => stat.mean,
        Read::Rose => stat.rose?,
    };
    Some(figure / field.by)
}

fn role<'a>(detail: &'a RunDetail, node: &str) -> &'a str {
    detail
        .inventory
        .as_ref()
        .and_then(|inventory| inventory.nodes.iter().find(|known| known.name == node))
        .map_or("", |known| known.role.as_str())
}

/// Held rows stay plain: only what differs is tinted.
fn row_mark(mark: Mark) -> Mark {
    if mark == Mark::Good { Mark::None } else { mark }
}

fn notes(detail: &RunDetail, table: &mut Table) {
    if detail.outline.target_kind == "sim" {
        table.notes.extend(steps::repeats_note(detail));
        table.notes.extend(remarks(detail));
        return;
    }
    table.notes.push(
        "Counts are of when the load was in place, before the probe. Snapshot size and interval are the last reading of \
         the measurement, snapshots are those that fell into it, the rest its mean. Small figures are the increment over the row above."
            .to_owned(),
    );
    let cpu = metric::find("process_cpu_share").map_or("", |metric| metric.source);
    table.notes.push(format!("CPU: {cpu}. 1 MB is 1 000 000 bytes."));
    table.notes.extend(of_hosts(detail));
    table.notes.extend(steps::repeats_note(detail));
    table.notes.extend(remarks(detail));
}

/// Which columns show a whole host instead of a server's process.
fn of_hosts(detail: &RunDetail) -> Option<String> {
    let stands_in = |field: &&Field| {
        let trials = steps::representative(detail);
        let mut pairs = trials.iter().flat_map(|trial| trial.target_nodes().map(move |(node, _)| (trial, node)));
        pairs.any(|(trial, node)| stand_in(trial, node, field.metric).is_some())
    };
    let labels: Vec<_> = FIELDS.iter().filter(stands_in).map(|field| field.label).collect();
    (!labels.is_empty()).then(|| {
        format!(
            "Of servers on other machines these are figures of the whole host, by node_exporter: {}.",
            labels.join(", ")
        )
    })
}

/// What steps were remarked upon, each remark once with the loads that it is about.
fn remarks(detail: &RunDetail) -> Vec<String> {
    let mut told: Vec<(&str, Vec<String>)> = Vec::new();
    for trial in steps::representative(detail) {
        for remark in &trial.remarks {
            let load = format::count(trial.load);
            match told.iter_mut().find(|(known, _)| known == remark) {
                Some((_, loads)) => loads.push(load),
                None => told.push((remark, vec![load])),
            }
        }
    }
    let unit = &detail.run.unit;
    told.into_iter().map(|(remark, loads)| format!("{} {unit}: {}", loads.join(", "), words::ended(remark))).collect()
}
