//! Tables and words made from what a run stored, for pages, files and the terminal.
//! Pure: no clock, no I/O, no judgement of its own. It shows what was measured and never a 0 for what was not.

pub mod actions;
pub mod campaign;
pub mod compare;
pub mod csv;
pub mod format;
pub mod goals;
pub mod hosts;
pub mod load_ops;
pub mod markdown;
pub mod operations;
pub mod outstanding;
pub mod scenario;
pub mod steps;
pub mod sweeps;
pub mod table;
pub mod target_data;
pub mod text;
pub mod trials;
pub mod words;

pub use table::{Cell, Column, Mark, Row, Table};

use crate::{model::Inventory, store::RunDetail};

/// Of what a table speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Of one arm: of an ordinary run as a whole.
    Arm,
    /// Of all arms of a run that has several together; empty for others.
    Arms,
}

/// A table that can be fetched under a stable name.
#[derive(Debug, Clone, Copy)]
pub struct TableEntry {
    /// The name in URLs, such as `target-data`.
    pub name: &'static str,
    pub of: Of,
    /// The table as people read it.
    pub page: fn(&RunDetail) -> Table,
    /// The table as programs read it: the same figures with one row a fact where columns would depend on the run.
    pub data: fn(&RunDetail) -> Table,
}

const fn of_arm(name: &'static str, page: fn(&RunDetail) -> Table, data: fn(&RunDetail) -> Table) -> TableEntry {
    TableEntry { name, of: Of::Arm, page, data }
}

const fn of_arms(name: &'static str, page: fn(&RunDetail) -> Table, data: fn(&RunDetail) -> Table) -> TableEntry {
    TableEntry { name, of: Of::Arms, page, data }
}

/// Every table with a URL of its own. One line adds one.
pub const TABLES: &[TableEntry] = &[
    of_arms("arms", sweeps::arms, sweeps::arms),
    of_arms("sweep-operations", sweeps::operations, sweeps::operations_long),
    of_arms("sweep-target-data", sweeps::target, sweeps::target),
    of_arm("goals", goals::all, goals::all),
    of_arm("target-data", target_data::of_lead, target_data::of_all),
    of_arm("operations", operations::by_step, operations::long),
    of_arm("load", load_ops::by_step, load_ops::long),
    of_arm("outstanding", outstanding::by_step, outstanding::by_step),
    of_arm("scenario", scenario::by_step, scenario::by_step),
    of_arm("counts", load_ops::counts_by_step, load_ops::counts),
    of_arm("actions", actions::all, actions::all),
    of_arm("trials", trials::all, trials::all),
    of_arm("rules", trials::rules, trials::rules),
    of_arm(HOSTS, hosts::all, hosts::all),
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
