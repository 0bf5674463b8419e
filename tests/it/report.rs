//! The tables of the source reports, in every form.

use rampart::{
    model::{Distribution, Outcome, SeriesStat, Trial},
    report::{self, csv, format::THIN, markdown, target_data, text},
    web::charts,
};

use crate::fixture;

fn table(name: &str, made: &fixture::Made) -> report::Table {
    (report::find(name).unwrap().page)(&made.detail)
}

/// Just enough of RFC 4180 to read our own files back.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match (quoted, sign) {
            (true, '"') if signs.peek() == Some(&'"') => {
                field.push('"');
                signs.next();
            }
            (true, '"') => quoted = false,
            (true, _) => field.push(sign),
            (false, '"') => quoted = true,
            (false, ',') => row.push(std::mem::take(&mut field)),
            (false, '\r') => {
                assert_eq!(signs.next(), Some('\n'), "lines end in CRLF");
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            (false, _) => field.push(sign),
        }
    }
    rows
}

#[test]
fn target_data_has_the_columns_of_the_source_report() {
    let table = table("target-data", &fixture::capacity());
    let heads: Vec<String> = table.columns.iter().map(markdown::head).collect();
    assert_eq!(
        heads,
        [
            "step",
            "znodes",
            "watches",
            "connections",
            "snapshot (MB)",
            "snapshot every (s)",
            "snapshots (in it)",
            "outstanding (mean)",
            "CPU (%)",
            "memory (GB)",
            "net in (MB/s)",
            "net out (MB/s)",
            "disk read (kB/s)",
            "disk write (MB/s)"
        ]
    );
    assert_eq!(table.rows.len(), 9, "step 0 and eight loads, repeats once");
    let text = markdown::render(&table);
    assert!(text.contains("| 200 domains broke | 802 006 (+100 250) |"), "{text}");
}

#[test]
fn what_was_not_sampled_is_said_and_never_zero() {
    let made = fixture::capacity();
    let table = table("target-data", &made);
    let step_0 = &table.rows[0];
    let snapshot = table.pairs(step_0).find(|(column, _)| column.id == "snapshot_mb").unwrap().1;
    assert_eq!(snapshot.shown(), "not sampled");
    assert_eq!(snapshot.value(), None);
    let snapshots = |step: usize| {
        let row = &table.rows[step];
        table.pairs(row).find(|(column, _)| column.id == "snapshots").unwrap().1.shown()
    };
    assert_eq!([0, 1, 2].map(snapshots), ["not sampled", "0", "2"], "none that fell into a step is a true zero");
    let data = csv::render(&target_data::of_all(&made.detail));
    let rows = parse(&data);
    let at = rows[0].iter().position(|head| head == "snapshot_mb").unwrap();
    assert_eq!(rows[1][at], "not sampled");
}

#[test]
fn csv_keeps_ids_units_and_increments_apart() {
    let data = csv::render(&target_data::of_all(&fixture::capacity().detail));
    let rows = parse(&data);
    assert_eq!(rows[0][..7], ["step", "load_domains", "outcome", "node", "znodes", "znodes_increment", "watches"]);
    assert!(rows[0].iter().any(|head| head == "disk_read_kb_per_s"));
    assert_eq!(rows[2][..6], ["1", "25", "held", fixture::NODE, "100256", "100250"]);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{data}");
}

#[test]
fn csv_quotes_and_does_not_become_a_formula() {
    let mut table =
        report::Table::new("t", "t", vec![report::Column::words("a", "a"), report::Column::words("b", "b")]);
    table.push(report::Mark::None, vec![report::Cell::text("x,\"y\"\n"), report::Cell::text("=SUM(1)")]);
    assert_eq!(csv::render(&table), "a,b\r\n\"x,\"\"y\"\"\n\",'=SUM(1)\r\n");
}

#[test]
fn operations_show_every_step_the_share_and_too_few_samples() {
    let table = table("operations", &fixture::capacity());
    let text = markdown::render(&table);
    let get = text.lines().find(|line| line.starts_with("| get ")).unwrap();
    assert!(get.starts_with("| get | 4 234 | 4 120 | 3 219 |"), "{get}");
    let watch = text.lines().find(|line| line.starts_with("| watch ")).unwrap();
    assert!(watch.contains(" cut |"), "{watch}");
    let delete = text.lines().find(|line| line.starts_with("| delete ephemeral ")).unwrap();
    assert!(delete.contains("too few samples"), "{delete}");
    assert!(table.columns.iter().any(|column| column.label == "200 / 0"), "{text}");
    assert!(table.columns.iter().any(|column| column.label == "p99 at 175"), "{text}");
}

#[test]
fn what_each_step_should_be_stands_with_what_the_load_consists_of() {
    let mut made = fixture::capacity();
    let text = markdown::render(&table("scenario", &made));
    assert!(text.contains("| step | load (domains) | executors | jobs | znodes | writes (per s) |"), "{text}");
    assert!(text.contains("| 8 | 200 | 600 | 7 000 | 802 000 | 2 310 |"), "{text}");
    assert!(!text.contains("| 9 | 225 |") && text.contains("4 more loads of the ladder were not measured"), "{text}");
    // A search tries loads between the rungs; znodes are not proportional here, so that the step's own count stands.
    made.detail.outline.expected[2].values[1] += 1.0;
    made.detail.trials[2].load = 60;
    let text = markdown::render(&table("scenario", &made));
    assert!(text.contains("| 2 | 60 | 180 | 2 100 | 200 500 | 693 |"), "{text}");
    made.detail.trials[2].counts.clear();
    let text = markdown::render(&table("scenario", &made));
    assert!(text.contains("| 2 | 60 | 180 | 2 100 | not planned | 693 |"), "{text}");
    made.detail.trials.clear();
    assert_eq!(table("scenario", &made).rows.len(), 13, "all that is planned, before anything is measured");
    made.detail.outline.expected.clear();
    assert!(table("scenario", &made).is_empty(), "a run of before this was kept");
}

#[test]
fn outstanding_requests_stand_with_their_spread_and_what_too_few_samples_cannot_say() {
    let mut made = fixture::capacity();
    let shown = table("outstanding", &made);
    let text = markdown::render(&shown);
    let last = text.lines().find(|line| line.starts_with("| 200 domains")).unwrap();
    let wanted = "| 200 domains broke | 127.0.0.1:21811 | 45 | 45.0 | 80.4 | 38 | 128 | too few samples | 155 | 91.1 | 73.3 | 20.0 | 0 |";
    assert_eq!(last, wanted);
    assert!(shown.notes.iter().any(|note| note.contains("does not answer gives none")), "{:?}", shown.notes);
    let stats = made.detail.trials.iter_mut().flat_map(|trial| trial.nodes.values_mut());
    for stat in stats.filter_map(|series| series.get_mut("outstanding_requests")) {
        stat.readings = 5;
        stat.distribution = Distribution::of(&[0.0, 0.0, 0.0, 0.0, 900.0]);
    }
    let few = table("outstanding", &made);
    let cell = |table: &report::Table, id: &str| {
        let row = table.rows.last().unwrap();
        table.pairs(row).find(|(column, _)| column.id == id).unwrap().1.shown()
    };
    for id in ["p50", "p90", "p99", "above_0_percent", "above_100_percent"] {
        assert_eq!(cell(&few, id), "too few samples", "{id}");
    }
    assert!(drawn(&made, charts::Size::Full).is_none(), "nothing can be said of any step");
    made.detail.trials.iter_mut().for_each(as_earlier_versions_stored_it);
    let old = table("outstanding", &made);
    assert_eq!((cell(&old, "p50"), cell(&old, "max")), ("not kept".to_owned(), "155".to_owned()));
    assert!(old.notes.iter().any(|note| note.contains("mean and maximum only")), "{:?}", old.notes);
    assert!(drawn(&made, charts::Size::Full).is_none());
}

fn drawn(made: &fixture::Made, size: charts::Size) -> Option<charts::Chart> {
    let input = charts::Input { detail: &made.detail, series: &[], now_ns: 0 };
    charts::find("outstanding-by-load").unwrap().draw(&input, size)
}

fn as_earlier_versions_stored_it(trial: &mut Trial) {
    let mut json = serde_json::to_value(&*trial).unwrap();
    for series in json["nodes"].as_object_mut().unwrap().values_mut() {
        for stat in series.as_object_mut().unwrap().values_mut() {
            stat.as_object_mut().unwrap().retain(|name, _| !matches!(name.as_str(), "distribution" | "rose"));
        }
    }
    *trial = serde_json::from_value(json).unwrap();
}

#[test]
fn outstanding_requests_are_drawn_as_shares_wide_and_narrow() {
    let made = fixture::capacity();
    for size in [charts::Size::Full, charts::Size::Narrow] {
        let drawn = drawn(&made, size).unwrap();
        assert!(drawn.table.is_some() && drawn.desc.contains("Of 127.0.0.1:21811: at 0 domains none outstanding"));
        assert!(drawn.desc.contains("at 200 domains") && drawn.desc.contains("101 to 1 000 for 20"), "{}", drawn.desc);
        // The legend has one of each class; of the bars those classes that occurred.
        let drawn_of = |class: &str| drawn.svg.matches(&format!("share {class}")).count();
        assert_eq!(drawn_of("q4"), 1, "never above 1 000");
        assert!(drawn_of("q3") > 1 && drawn_of("q0") == 10, "{}", drawn.svg);
    }
}

#[test]
fn load_is_asked_against_achieved() {
    let table = table("load", &fixture::capacity());
    let last = table.rows.last().unwrap();
    let cell = |id: &str| table.pairs(last).find(|(column, _)| column.id == id).unwrap().1.shown().replace(THIN, " ");
    assert_eq!(cell("transactions_asked_per_s"), "2 000");
    assert_eq!(cell("transactions_achieved_percent"), "71.0");
    assert_eq!(cell("reads_asked_per_s"), "480");
}

#[test]
fn counts_that_could_not_be_read_are_not_confirmed() {
    let text = markdown::render(&report::load_ops::counts(&fixture::capacity().detail));
    let line = text.lines().find(|line| line.starts_with("| 125 domains | sessions")).unwrap();
    assert_eq!(line, "| 125 domains | sessions | 875 | not sampled | not sampled | 8 | not sampled |");
    let text = markdown::render(&table("counts", &fixture::capacity()));
    let line = text.lines().find(|line| line.starts_with("| 125 domains |")).unwrap();
    assert!(line.ends_with("| 875 | not sampled | in part |"), "{line}");
}

#[test]
fn void_and_repeated_trials_are_kept_with_their_reason() {
    let made = fixture::capacity();
    let table = table("trials", &made);
    assert_eq!(table.rows.len(), made.detail.trials.len());
    let text = markdown::render(&table);
    assert!(text.contains("| 4 | 1 | 100 | void |"), "{text}");
    assert!(text.contains("start lag p99 48.2 ms, limit 20 ms"), "{text}");
}

#[test]
fn the_last_valid_trial_stands_for_its_step() {
    let made = fixture::capacity();
    let shown = report::steps::representative(&made.detail);
    let step_4 = shown.iter().find(|trial| trial.step == 4).unwrap();
    assert_eq!((step_4.trial, step_4.outcome), (2, Outcome::Held));
}

#[test]
fn a_trial_with_an_action_does_not_stand_for_its_step_where_a_plain_one_does() {
    let mut made = fixture::capacity();
    let shown = |made: &fixture::Made| report::steps::representative(&made.detail)[2].trial;
    let plain = shown(&made);
    let with = fixture::acted(made.detail.trials.iter().find(|trial| trial.step == 2).unwrap());
    made.detail.trials.push(with);
    assert_eq!(shown(&made), plain);
    made.detail.trials.retain(|trial| trial.step != 2 || trial.action.is_some());
    assert_eq!(shown(&made), plain + 1, "there is no other");
}

#[test]
fn markdown_cannot_be_broken_by_names() {
    let text = markdown::render(&table("target-data", &fixture::hostile()));
    assert!(!text.contains("<script"), "{text}");
}

#[test]
fn the_terminal_gets_the_same_table() {
    let table = table("operations", &fixture::capacity());
    let text = text::render(&table, None);
    assert!(text.contains("create ephemeral") && text.contains("4 234"), "{text}");
}

#[test]
fn hosts_stand_with_what_is_known_of_them() {
    let made = fixture::capacity();
    let text = markdown::render(&table("hosts", &made));
    assert!(
        text.contains("AMD EPYC 7302") && text.contains("17.0.15 (Debian)") && text.contains("read here"),
        "{text}"
    );
    assert!(text.contains("not known"), "a network without a speed has no 0: {text}");
    assert!(text.contains(&made.detail.inventory.as_ref().unwrap().fingerprint.hash), "{text}");
    assert!(table("hosts", &fixture::queued()).is_empty());
}

#[test]
fn a_host_stands_in_for_a_process_that_cannot_be_read_and_the_table_says_so() {
    let mut made = fixture::capacity();
    let plain = table("target-data", &made);
    assert!(plain.notes.iter().all(|note| !note.contains("node_exporter")), "{:?}", plain.notes);
    let mut both = fixture::capacity();
    for series in both.detail.trials.iter_mut().flat_map(|trial| trial.nodes.values_mut()) {
        series.extend(SeriesStat::of(&[0.9]).map(|stat| ("host_cpu_share".to_owned(), stat)));
    }
    let shown = table("target-data", &both);
    assert_eq!((&shown.rows, &shown.notes), (&plain.rows, &plain.notes), "the process says more than its host");
    for trial in &mut made.detail.trials {
        for series in trial.nodes.values_mut() {
            for (process, host) in [("process_cpu_share", "host_cpu_share"), ("memory_bytes", "host_memory_bytes")] {
                let stat = series.remove(process);
                series.extend(stat.map(|stat| (host.to_owned(), stat)));
            }
        }
    }
    let shown = table("target-data", &made);
    assert_eq!(shown.rows, plain.rows);
    let note = "Of servers on other machines these are figures of the whole host, by node_exporter: CPU, memory.";
    assert!(shown.notes.iter().any(|each| each == note), "{:?}", shown.notes);
}
