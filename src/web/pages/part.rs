//! Parts that several pages show: tables, charts, small panels, chips.

use askama::Template;

use crate::{
    report::{Mark, Table, TableEntry},
    store::RunDetail,
    web::charts::{CHARTS, Chart, Input, Place},
};

/// A short word with a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chip {
    pub text: String,
    pub mark: Mark,
    /// The longer words.
    pub title: String,
}

/// A table as HTML, in a region that scrolls by itself.
#[derive(Debug, Template)]
#[template(path = "parts/table.html")]
pub struct TablePart<'a> {
    pub table: &'a Table,
    /// Where its notes stand below it.
    pub notes: bool,
}

/// A table as HTML; empty where rendering fails, which a template without I/O does not.
#[must_use]
pub fn table(table: &Table, notes: bool) -> String {
    TablePart { table, notes }.render().unwrap_or_default()
}

/// A panel with one table and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePanel {
    pub name: &'static str,
    pub title: String,
    pub html: String,
    /// Whether the panel is closed at first.
    pub closed: bool,
}

impl TablePanel {
    /// The panel of an entry; nothing where its table has no rows.
    #[must_use]
    pub fn of(entry: &'static TableEntry, detail: &RunDetail, closed: bool) -> Option<Self> {
        let made = (entry.page)(detail);
        (!made.is_empty()).then(|| Self { name: entry.name, html: table(&made, true), title: made.title, closed })
    }
}

/// A chart with its table, ready for a template.
#[derive(Debug, Clone)]
pub struct ChartPart {
    pub name: &'static str,
    pub title: String,
    pub desc: String,
    pub svg: String,
    pub table: Option<String>,
    /// What stands behind its address, such as `?arm=1`.
    pub query: String,
    /// What a script needs, as JSON.
    pub live: Option<String>,
}

impl From<Chart> for ChartPart {
    fn from(chart: Chart) -> Self {
        let Chart { name, title, desc, svg, table: made, live } = chart;
        Self {
            name,
            title,
            desc,
            svg,
            query: String::new(),
            table: made.map(|made| table(&made, false)),
            live: live.and_then(|live| serde_json::to_string(&live).ok()),
        }
    }
}

/// The charts of one place, in the order of the list.
#[must_use]
pub fn charts(input: &Input<'_>, place: Place) -> Vec<ChartPart> {
    CHARTS
        .iter()
        .filter(|entry| entry.place == place)
        .filter_map(|entry| entry.both(input).map(ChartPart::from))
        .collect()
}
