//! Tables and words made from what a run stored, for pages, files and the terminal.
//! Pure: no clock, no I/O, no judgement of its own. It shows what was measured and never a 0 for what was not.

pub mod campaign;
pub mod compare;
pub mod csv;
pub mod format;
pub mod hosts;
pub mod load_ops;
pub mod markdown;
pub mod operations;
pub mod outstanding;
pub mod scenario;
pub mod steps;
pub mod table;
pub mod target_data;
pub mod text;
pub mod trials;
pub mod words;

pub use table::{Cell, Column, Mark, Row, Table};

use crate::{model::Inventory, store::RunDetail};

/// A table that can be fetched under a stable name.
#[derive(Debug, Clone, Copy)]
pub struct TableEntry {
    /// The name in URLs, such as `target-data`.
    pub name: &'static str,
    /// The table as people read it.
    pub page: fn(&RunDetail) -> Table,
    /// The table as programs read it: the same figures with one row a fact where columns would depend on the run.
    pub data: fn(&RunDetail) -> Table,
}

/// Every table with a URL of its own. One line adds one.
pub const TABLES: &[TableEntry] = &[
    TableEntry { name: "target-data", page: target_data::of_lead, data: target_data::of_all },
    TableEntry { name: "operations", page: operations::by_step, data: operations::long },
    TableEntry { name: "load", page: load_ops::by_step, data: load_ops::long },
    TableEntry { name: "outstanding", page: outstanding::by_step, data: outstanding::by_step },
    TableEntry { name: "scenario", page: scenario::by_step, data: scenario::by_step },
    TableEntry { name: "counts", page: load_ops::counts_by_step, data: load_ops::counts },
    TableEntry { name: "trials", page: trials::all, data: trials::all },
    TableEntry { name: "rules", page: trials::rules, data: trials::rules },
    TableEntry { name: HOSTS, page: hosts::all, data: hosts::all },
];

/// The table that stands with what a run ran on.
pub const HOSTS: &str = "hosts";

/// The table of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static TableEntry> {
    TABLES.iter().find(|entry| entry.name == name)
}

/// The leader, else the only or first server.
#[must_use]
pub fn lead(inventory: &Inventory) -> Option<String> {
    let role = |word: &str| inventory.nodes.iter().find(|node| node.role == word);
    role("leader").or_else(|| role("standalone")).or_else(|| inventory.nodes.first()).map(|node| node.name.clone())
}

/// The node that tables show first: the leader, else the only or first node; a node with readings when nothing is
/// known of roles.
#[must_use]
pub fn lead_node(detail: &RunDetail) -> Option<String> {
    detail
        .inventory
        .as_ref()
        .and_then(lead)
        .or_else(|| detail.trials.iter().find_map(|trial| trial.target_nodes().next().map(|(node, _)| node.to_owned())))
}
