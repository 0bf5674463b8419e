//! A table as GitHub markdown, to be pasted into reports and issues.

use std::fmt::Write as _;

use super::{Cell, Column, Table, format};

/// The table with its title as a heading, and its notes below.
#[must_use]
pub fn render(table: &Table) -> String {
    let mut out = format!("### {}\n\n|", escape(&table.title));
    for column in &table.columns {
        let _ = write!(out, " {} |", escape(&head(column)));
    }
    out.push_str("\n|");
    for column in &table.columns {
        out.push_str(if column.words { " :--- |" } else { " ---: |" });
    }
    for row in &table.rows {
        out.push_str("\n|");
        for cell in &row.cells {
            let _ = write!(out, " {} |", escape(&shown(cell)));
        }
    }
    out.push('\n');
    for note in &table.notes {
        let _ = write!(out, "\n{}\n", escape(note));
    }
    out
}

/// The head of a column with its unit.
#[must_use]
pub fn head(column: &Column) -> String {
    if column.unit.is_empty() { column.label.clone() } else { format!("{} ({})", column.label, column.unit) }
}

/// A cell on one line, with plain spaces between thousands, so that it can be searched for.
#[must_use]
pub fn shown(cell: &Cell) -> String {
    let mut text = cell.shown();
    if let Some(increment) = cell.shown_increment() {
        let _ = write!(text, " ({increment})");
    }
    if !cell.suffix.is_empty() {
        let _ = write!(text, " {}", cell.suffix);
    }
    text.replace(format::THIN, " ")
}

/// Markdown signs that would break a cell or start markup; `<` so that nothing becomes HTML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' => {
                out.push('\\');
                out.push(sign);
            }
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            _ => out.push(sign),
        }
    }
    out
}
