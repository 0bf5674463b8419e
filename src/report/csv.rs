//! A table as CSV (RFC 4180): stable column ids with units in their names, raw figures, CRLF.

use super::{Cell, Column, Table};

/// The table without title and notes. Columns with increments become two.
#[must_use]
pub fn render(table: &Table) -> String {
    let mut out = String::new();
    let heads = table.columns.iter().flat_map(|column| {
        [Some(column.id.clone()), column.increment.then(|| format!("{}_increment", column.id))].into_iter().flatten()
    });
    line(&mut out, heads);
    for row in &table.rows {
        line(&mut out, table.pairs(row).flat_map(|(column, cell)| fields(column, cell)));
    }
    out
}

fn fields(column: &Column, cell: &Cell) -> impl Iterator<Item = String> {
    let value = if cell.is_missing() || cell.suffix.is_empty() || !column.words {
        cell.raw()
    } else {
        format!("{} {}", cell.raw(), cell.suffix)
    };
    let increment = column.increment.then(|| cell.increment.map_or_else(String::new, |by| format!("{by:.0}")));
    [Some(value), increment].into_iter().flatten()
}

fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&quote(&field));
    }
    out.push_str("\r\n");
}

/// Quotes where RFC 4180 asks for it, and keeps a spreadsheet from reading a name as a formula.
fn quote(field: &str) -> String {
    let guarded = match field.chars().next() {
        Some('=' | '+' | '@' | '\t') => format!("'{field}"),
        Some('-') if field.parse::<f64>().is_err() => format!("'{field}"),
        _ => field.to_owned(),
    };
    if guarded.contains([',', '"', '\n', '\r']) { format!("\"{}\"", guarded.replace('"', "\"\"")) } else { guarded }
}
