//! Tables and charts of a run as files: markdown, CSV, SVG.

use axum::{
    extract::{Path, Query, State},
    http::header,
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use super::{PageError, run::fetch};
use crate::{
    model::{Arm, Clock},
    report::{self, Of, csv, markdown, sweeps, target_data},
    store::{RunDetail, Series},
    web::{
        AppState,
        charts::{self, CHARTS, Input, Place, Size},
    },
};

/// Which server a table is of.
#[derive(Debug, Default, Deserialize)]
pub struct TableQuery {
    pub node: Option<String>,
    pub arm: Option<u32>,
}

pub(super) async fn table(
    State(state): State<AppState>,
    Path((id, file)): Path<(String, String)>,
    Query(query): Query<TableQuery>,
) -> Result<Response, PageError> {
    let (detail, _, arm) = fetch(&state, &id, &["znodes"], 1, query.arm).await?;
    table_file(&detail, arm.as_ref(), &file, &query)
}

/// `target-data.md`, `operations.csv`, ... `arm`: the one that `detail` is of, of a run that has several.
///
/// # Errors
/// When there is no such table or form.
pub fn table_file(
    detail: &RunDetail,
    arm: Option<&Arm>,
    file: &str,
    query: &TableQuery,
) -> Result<Response, PageError> {
    let unknown = || {
        let names: Vec<&str> = report::TABLES.iter().map(|entry| entry.name).collect();
        PageError::NotFound(format!("table {file:?}; there are {}, each as .md and .csv", names.join(", ")))
    };
    let (name, form) = file.rsplit_once('.').ok_or_else(unknown)?;
    let entry = report::find(name).ok_or_else(unknown)?;
    // Of a run with arms, people read one of them at a time; programs get all.
    let joins = detail.has_arms() && entry.of == Of::Arm;
    let first = detail.outline.arms.first().filter(|_| joins);
    if let Some((arm, of_first)) = first.and_then(|arm| Some((arm, detail.of_arm(arm.number)?)))
        && form == "md"
    {
        let table = sweeps::titled((entry.page)(&of_first), arm);
        return Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], markdown::render(&table)).into_response());
    }
    match form {
        "md" => {
            let table = match &query.node {
                Some(node) if name == "target-data" => target_data::of_node(detail, node),
                _ => (entry.page)(detail),
            };
            let table = match arm {
                Some(arm) => sweeps::titled(table, arm),
                None => table,
            };
            Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], markdown::render(&table)).into_response())
        }
        "csv" => {
            let headers = [
                (header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present".to_owned()),
                (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}-{name}.csv\"", detail.run.id.short())),
            ];
            let joined = if joins { sweeps::joined(detail, entry.data) } else { None };
            Ok((headers, csv::render(&joined.unwrap_or_else(|| (entry.data)(detail)))).into_response())
        }
        _ => Err(unknown()),
    }
}

/// How wide a chart is drawn.
#[derive(Debug, Default, Deserialize)]
pub struct ChartQuery {
    /// `narrow`, or as on a page.
    pub size: Option<String>,
    pub arm: Option<u32>,
}

pub(super) async fn chart(
    State(state): State<AppState>,
    Path((id, file)): Path<(String, String)>,
    Query(query): Query<ChartQuery>,
) -> Result<Response, PageError> {
    let (detail, series, _) = fetch(&state, &id, &charts::metrics(), super::run::POINTS, query.arm).await?;
    chart_file(&detail, &series, Clock::start().now_ns(), &file, &query)
}

/// `judged.svg`, `ladder.svg`, ...
///
/// # Errors
/// When there is no such chart, or the run has nothing to show in it.
pub fn chart_file(
    detail: &RunDetail,
    series: &[Series],
    now_ns: i64,
    file: &str,
    query: &ChartQuery,
) -> Result<Response, PageError> {
    // Of a run with arms, a chart that is not of all of them is of the first.
    let of_first = detail.outline.arms.first().and_then(|arm| detail.of_arm(arm.number));
    let of_first = of_first
        .filter(|_| charts::find(file.trim_end_matches(".svg")).is_some_and(|entry| entry.place != Place::Sweep));
    let of_arm: Vec<Series>;
    let (detail, series) = match &of_first {
        Some(first) => {
            of_arm = series.iter().filter(|series| series.arm == detail.outline.arms[0].number).cloned().collect();
            (first, of_arm.as_slice())
        }
        None => (detail, series),
    };
    let input = Input { detail, series, now_ns };
    let unknown = || {
        let names: Vec<&str> = CHARTS.iter().map(|entry| entry.name).collect();
        PageError::NotFound(format!("chart {file:?} of this run; there are {}, each as .svg", names.join(", ")))
    };
    let entry = file.strip_suffix(".svg").and_then(charts::find).ok_or_else(unknown)?;
    let size = match query.size.as_deref() {
        Some("narrow") => Size::Narrow,
        _ if matches!(entry.place, Place::Row | Place::Sweep) => Size::Full,
        _ => Size::Half,
    };
    let chart = entry.draw(&input, size).ok_or_else(unknown)?;
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        // The colours stand inside the file.
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ];
    Ok((headers, charts::standalone(&chart)).into_response())
}
