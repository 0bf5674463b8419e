//! A small table: columns with units, rows with marks. Renderers turn it into markdown, CSV, plain text and HTML.

use super::format;

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The stable name in files, with the unit of the raw value: `net_in_mb_per_s`.
    pub id: String,
    /// The head that people read.
    pub label: String,
    /// The unit under the head; empty for counts and words.
    pub unit: String,
    /// Words stand left, figures right.
    pub words: bool,
    /// Whether cells may carry an increment over the row before.
    pub increment: bool,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn words(id: &str, label: &str) -> Self {
        Self { id: id.to_owned(), label: label.to_owned(), unit: String::new(), words: true, increment: false }
    }

    /// A column of figures.
    #[must_use]
    pub fn figures(id: &str, label: &str, unit: &str) -> Self {
        Self { id: id.to_owned(), label: label.to_owned(), unit: unit.to_owned(), words: false, increment: false }
    }

    /// With increments beside totals.
    #[must_use]
    pub fn with_increment(mut self) -> Self {
        self.increment = true;
        self
    }
}

/// What a cell or a row stands for, beyond its figure. Always said in words too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    #[default]
    None,
    Good,
    Bad,
    Void,
    /// Undecided, or cut by a limit of time.
    Wait,
}

impl Mark {
    /// The class of the stylesheet.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Void => "void",
            Self::Wait => "wait",
        }
    }
}

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(f64),
    /// A whole number, never shortened.
    Count(f64),
    /// There is none; the words say why.
    Missing(&'static str),
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    value: Value,
    /// Over the row before, where the column has increments.
    pub increment: Option<f64>,
    /// A word or sign behind the figure, such as `cut`.
    pub suffix: &'static str,
    pub mark: Mark,
}

impl Cell {
    fn of(value: Value) -> Self {
        Self { value, increment: None, suffix: "", mark: Mark::None }
    }

    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Value::Text(text.into()))
    }

    #[must_use]
    pub fn number(value: f64) -> Self {
        Self::of(Value::Number(value))
    }

    /// A whole number: of things, steps, loads.
    #[must_use]
    pub fn count(value: u64) -> Self {
        Self::of(Value::Count(value as f64))
    }

    /// A whole number that may be absent because nothing read it, or may be negative.
    #[must_use]
    pub fn counted(value: Option<f64>) -> Self {
        Self::of(value.map_or(Value::Missing(format::NOT_SAMPLED), Value::Count))
    }

    /// A figure that may be absent because nothing read it.
    #[must_use]
    pub fn sampled(value: Option<f64>) -> Self {
        Self::of(value.map_or(Value::Missing(format::NOT_SAMPLED), Value::Number))
    }

    /// A percentile in milliseconds of microseconds, absent when samples are too few.
    #[must_use]
    pub fn percentile(us: Option<u64>) -> Self {
        Self::of(us.map_or(Value::Missing(format::TOO_FEW), |us| Value::Number(us as f64 / 1_000.0)))
    }

    /// A figure that has no meaning here; the word says why.
    #[must_use]
    pub fn missing(why: &'static str) -> Self {
        Self::of(Value::Missing(why))
    }

    #[must_use]
    pub fn increment(mut self, increment: Option<f64>) -> Self {
        self.increment = increment;
        self
    }

    #[must_use]
    pub fn suffix(mut self, suffix: &'static str) -> Self {
        self.suffix = suffix;
        self
    }

    #[must_use]
    pub fn mark(mut self, mark: Mark) -> Self {
        self.mark = mark;
        self
    }

    /// For people.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            Value::Number(value) => format::figure(*value),
            Value::Count(value) => format::whole_figure(*value),
            Value::Missing(why) => (*why).to_owned(),
        }
    }

    /// The increment for people, or nothing.
    #[must_use]
    pub fn shown_increment(&self) -> Option<String> {
        self.increment.map(format::signed)
    }

    /// For programs: full digits, and the same words as for people where nothing was measured.
    #[must_use]
    pub fn raw(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            Value::Number(value) | Value::Count(value) => raw_number(*value),
            Value::Missing(why) => (*why).to_owned(),
        }
    }

    /// The number, where there is one.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self.value {
            Value::Number(value) | Value::Count(value) => Some(value),
            Value::Text(_) | Value::Missing(_) => None,
        }
    }

    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self.value, Value::Missing(_))
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub cells: Vec<Cell>,
    pub mark: Mark,
}

/// A table with its title and what a reader must know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The stable name, such as `target-data`.
    pub id: String,
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Sentences under the table.
    pub notes: Vec<String>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(id: &str, title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { id: id.to_owned(), title: title.into(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row. Missing cells at its end are left empty.
    pub fn push(&mut self, mark: Mark, cells: Vec<Cell>) {
        self.rows.push(Row { cells, mark });
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Cells of a row with their columns.
    pub fn pairs<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
        self.columns.iter().zip(&row.cells)
    }
}

/// At most six decimals, without trailing zeros.
fn raw_number(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
