//! A table for a terminal.

use comfy_table::{Cell as TextCell, CellAlignment, ContentArrangement, Table as TextTable, presets};

use super::{Table, markdown};

/// The table with its title above and its notes below, at most `width` columns wide where that is given.
#[must_use]
pub fn render(table: &Table, width: Option<u16>) -> String {
    let mut text = TextTable::new();
    text.load_style(presets::UTF8_HORIZONTAL_ONLY);
    if let Some(width) = width {
        text.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    text.set_header(table.columns.iter().map(|column| {
        let head =
            if column.unit.is_empty() { column.label.clone() } else { format!("{}\n{}", column.label, column.unit) };
        TextCell::new(head).set_alignment(side(column.words))
    }));
    for row in &table.rows {
        text.add_row(
            table
                .pairs(row)
                .map(|(column, cell)| TextCell::new(markdown::shown(cell)).set_alignment(side(column.words))),
        );
    }
    let mut out = format!("{}\n{text}\n", table.title);
    for note in &table.notes {
        out.push_str(note);
        out.push('\n');
    }
    out
}

const fn side(words: bool) -> CellAlignment {
    if words { CellAlignment::Left } else { CellAlignment::Right }
}
