//! Runs as the store would give them: one of each kind of answer, with series at 1 Hz.

use std::collections::BTreeMap;

use rampart::{
    model::*,
    scenario::plan::{Need, Outline},
    store::{RunDetail, RunRow, Series, rows::PhaseNow},
};

pub const NODE: &str = "127.0.0.1:21811";
const START_NS: i64 = 1_796_090_000_000_000_000;
const S: i64 = 1_000_000_000;
const GET: [f64; 9] = [4_234.0, 4_120.0, 3_219.0, 2_874.0, 2_410.0, 2_005.0, 1_722.0, 1_544.0, 612.0];
const CREATE: [f64; 9] = [1_354.0, 1_383.0, 1_311.0, 1_190.0, 1_007.0, 868.0, 702.0, 590.0, 188.0];

/// A run with everything a page asks the store for.
pub struct Made {
    pub detail: RunDetail,
    pub series: Vec<Series>,
    pub now_ns: i64,
}

fn noise(at: i64, seed: i64) -> f64 {
    let mut mixed = ((at / S) as u64).wrapping_add((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
}

fn stat(mean: f64, last: f64) -> SeriesStat {
    SeriesStat { mean, min: mean * 0.8, max: mean * 1.3, last, readings: 40 }
}

fn percentiles(p99_us: u64, done: u64) -> Percentiles {
    Percentiles {
        mean_us: p99_us as f64 * 0.3,
        p50_us: p99_us / 4,
        p95_us: (done >= 60).then_some(p99_us * 7 / 10),
        p99_us: (done >= 459).then_some(p99_us),
        p999_us: (done >= 4_603).then_some(p99_us * 2),
        max_us: p99_us * 3,
    }
}

fn probe(operation: &str, rate: f64, cut: bool) -> OperationStat {
    let done = if operation == "delete_ephemeral" { 402 } else { (rate * 6.0) as u64 };
    OperationStat {
        stream: "zookeeper.latencies".into(),
        probe: true,
        node: NODE.into(),
        operation: operation.into(),
        done,
        elapsed_s: 6.0,
        ops_per_s: rate,
        asked: Some(10_000),
        cut,
        latency: percentiles((4e6 / rate) as u64, done),
        service: percentiles((3.8e6 / rate) as u64, done),
        errors: BTreeMap::new(),
    }
}

fn traffic(operation: &str, load: u64, per_domain: f64, share: f64) -> OperationStat {
    let asked = load as f64 * per_domain;
    OperationStat {
        stream: "domains".into(),
        probe: false,
        node: String::new(),
        operation: operation.into(),
        done: (asked * share * 40.0) as u64,
        elapsed_s: 40.0,
        ops_per_s: asked * share,
        asked: Some((asked * 40.0) as u64),
        cut: false,
        latency: percentiles(9_000, 10_000),
        service: percentiles(8_000, 10_000),
        errors: if share < 0.9 { BTreeMap::from([("connection_loss".into(), 14)]) } else { BTreeMap::new() },
    }
}

/// One trial of step `step` at 25 domains a step; `at_s` after the start of the run.
pub fn trial(step: u32, number: u32, at_s: i64, outcome: Outcome) -> Trial {
    let load = u64::from(step) * 25;
    let k = step as usize % GET.len();
    let (n, share) = (load as f64, if step == 8 { 0.71 } else { 1.0 });
    let fall = if number > 1 { 0.93 } else { 1.0 };
    let (get, create) = (GET[k] * fall, CREATE[k] * fall);
    let started = START_NS + at_s * S;
    let fill = if step == 0 || number > 1 { 0.4 } else { 22.0 + n / 20.0 };
    let measure_from = started + ((fill + 10.0) * 1e9) as i64;
    let mut own = BTreeMap::from([
        ("znodes".into(), stat(6.0 + n * 4_010.0, 6.0 + n * 4_010.0)),
        ("watches".into(), stat(n * 11_020.0, n * 11_020.0)),
        ("connections".into(), stat(2.0 + n * 7.0, 2.0 + n * 7.0)),
        ("outstanding_requests".into(), stat(0.4 + n * n / 500.0, n / 4.0)),
        ("process_cpu_share".into(), stat(0.04 + n * 0.0031, 0.3)),
        ("memory_bytes".into(), stat(4.1e8 + n * 2.1e6, 7e8)),
        ("net_in_bytes_per_s".into(), stat(4e4 + n * 9_300.0, 2e6)),
        ("net_out_bytes_per_s".into(), stat(9e4 + n * 21_000.0, 4e6)),
        ("disk_write_bytes_per_s".into(), stat(3e5 + n * 88_000.0, 2e7)),
        ("transactions_per_s".into(), stat(n * 10.6 * share + 160.0, 900.0)),
        ("heap_after_gc_bytes".into(), stat(9e7 + n * 3.8e6, 8e8)),
    ]);
    if step > 0 {
        own.insert("snapshot_bytes".into(), stat(n * 2.3e6, n * 2.3e6));
        own.insert("snapshot_interval_s".into(), stat(90.0 - n / 4.0, 90.0 - n / 4.0));
        own.insert("disk_read_bytes_per_s".into(), stat(n * 11.0, n * 11.0));
    }
    let limit = GET[0] * 0.3;
    let broke = get < limit;
    let rule = |rule, subject: &str, value: f64, limit: f64, unit: &str, broke: bool, text: String| RuleReading {
        rule,
        subject: subject.into(),
        value: Some(value),
        limit,
        unit: unit.into(),
        broke: Some(broke),
        text,
    };
    let word = if broke { "below" } else { "not below" };
    let rules = vec![
        rule(
            StopCode::ThroughputDrop,
            "get",
            get,
            limit,
            "per_s",
            broke,
            format!("get ran {get:.0} times per second, {word} {limit:.0} per second (30 % of step 0)."),
        ),
        rule(
            StopCode::OutstandingHigh,
            NODE,
            0.4 + n * n / 500.0,
            200.0,
            "",
            false,
            format!("{:.0} requests were outstanding, not above 200.", 0.4 + n * n / 500.0),
        ),
    ];
    Trial {
        arm: 0,
        step,
        trial: number,
        load,
        started_ns: started,
        measure_from_ns: measure_from,
        ended_ns: measure_from + 45 * S,
        fill_s: fill,
        settle_s: 10.0,
        measure_s: 45.0,
        operations: vec![
            probe("create", create, false),
            probe("set", create * 1.02, false),
            probe("get", get, false),
            probe("delete", create * 1.1, false),
            probe("create_ephemeral", create * 0.94, false),
            probe("watch", get * 0.97, step == 8),
            probe("delete_ephemeral", create * 0.95, false),
        ]
        .into_iter()
        .chain((step > 0).then(|| traffic("set", load, 10.0, share)))
        .chain((step > 0).then(|| traffic("get", load, 2.4, share)))
        .collect(),
        counts: if step == 0 {
            Vec::new()
        } else {
            [("znodes", 4_010), ("watches", 11_020), ("ephemerals", 38), ("sessions", 7)]
                .map(|(what, per)| CountCheck {
                    what: what.into(),
                    expected: load * per,
                    observed: (what != "sessions" || step != 5)
                        .then(|| (load * per) as i64 + if what == "watches" { 4 } else { 0 }),
                    tolerance: 8,
                })
                .into()
        },
        nodes: BTreeMap::from([(NODE.to_owned(), own)]),
        health: Health {
            start_lag_p99_us: if outcome == Outcome::Void { 48_200 } else { 380 + load * 2 },
            missed: if outcome == Outcome::Void { 1_204 } else { 0 },
            cpu_share: 0.06 + n * 0.0008,
            busiest_thread_share: Some(0.2),
            open_files: 60 + load * 7,
            open_files_limit: 524_288,
            clock_jump_ms: 0.0,
        },
        incidents: if step == 8 {
            vec![Incident {
                at_ns: measure_from + 12 * S,
                kind: IncidentKind::Stall,
                node: NODE.into(),
                text: "srvr took 2.4 s at 127.0.0.1:21811 (longest pause in the GC log: 1.9 s).".into(),
                amount: 2_400.0,
            }]
        } else {
            Vec::new()
        },
        outcome,
        stop_code: (outcome == Outcome::Broke).then_some(StopCode::ThroughputDrop),
        rules: if step == 0 || outcome == Outcome::Void { Vec::new() } else { rules },
        remarks: match (step, outcome) {
            (_, Outcome::Void) => {
                vec!["The generator was late (start lag p99 48.2 ms, limit 20 ms): measured again.".into()]
            }
            (1, _) => vec!["The window of 45 s is shorter than one snapshot cycle (84 s).".into()],
            _ => Vec::new(),
        },
    }
}

fn series_of(trials: &[Trial], until_s: i64) -> Vec<Series> {
    type Value = fn(f64, f64, bool, i64) -> Option<f64>;
    let metrics: [(&str, &str, &str, Value); 12] = [
        (NODE, "outstanding_requests", "", |n, z, _, _| Some((0.4 + n * n / 500.0) * (1.0 + 0.9 * z))),
        (NODE, "process_cpu_share", "share", |n, z, _, _| Some(0.04 + n * 0.0031 + 0.04 * z.abs())),
        (NODE, "znodes", "", |n, _, _, _| Some(6.0 + n * 4_010.0)),
        (NODE, "heap_after_gc_bytes", "bytes", |n, z, _, s| (s % 4 == 0).then_some(9e7 + n * 3.8e6 + 2e7 * z)),
        (NODE, "heap_max_bytes", "bytes", |_, _, _, s| (s % 4 == 0).then_some(1.07e9)),
        (NODE, "disk_write_bytes_per_s", "bytes_per_s", |n, z, _, _| {
            Some((3e5 + n * 88_000.0) * (1.0 + 1.4 * z).max(0.0))
        }),
        (NODE, "disk_read_bytes_per_s", "bytes_per_s", |n, z, _, _| Some(n * 900.0 * z.abs())),
        (NODE, "net_in_bytes_per_s", "bytes_per_s", |n, z, _, _| Some((4e4 + n * 9_300.0) * (1.0 + 0.2 * z))),
        (NODE, "net_out_bytes_per_s", "bytes_per_s", |n, z, _, _| Some((9e4 + n * 21_000.0) * (1.0 + 0.2 * z))),
        ("generator", "probe_ops_per_s", "per_s", |n, z, m, s| {
            let rate = GET[((n / 25.0) as usize).min(8)];
            m.then_some(if s % 12 < 5 { rate } else { rate * 0.4 } * (1.0 + 0.1 * z))
        }),
        ("generator", "generator_cpu_share", "share", |n, z, _, _| Some(0.06 + n * 0.0008 + 0.02 * z.abs())),
        ("generator", "start_lag_p99_ms", "ms", |n, z, _, _| Some(0.38 + n * 0.002 + 0.3 * z.abs())),
    ];
    let load_at = |at: i64| {
        let within = trials.iter().rev().find(|trial| trial.started_ns <= at);
        within.map_or((0.0, false), |trial| {
            let before = if trial.trial > 1 { trial.load } else { trial.load.saturating_sub(25) } as f64;
            let filled = ((at - trial.started_ns) as f64 / 1e9 / trial.fill_s.max(0.1)).min(1.0);
            let load = before + (trial.load as f64 - before) * filled;
            (load, (trial.measure_from_ns..trial.ended_ns).contains(&at))
        })
    };
    let mut all: Vec<Series> = metrics
        .into_iter()
        .enumerate()
        .map(|(seed, (node, metric, unit, value))| Series {
            arm: 0,
            node: node.into(),
            metric: metric.into(),
            unit: unit.into(),
            points: (0..until_s)
                .filter(|s| node != NODE || !(300..330).contains(s))
                .filter_map(|s| {
                    let at = START_NS + s * S;
                    let (load, measuring) = load_at(at);
                    value(load, noise(at, seed as i64), measuring, s).map(|value| (at, value))
                })
                .collect(),
        })
        .collect();
    all.push(Series {
        arm: 0,
        node: "generator".into(),
        metric: "load_confirmed".into(),
        unit: String::new(),
        points: (0..until_s).map(|s| (START_NS + s * S, load_at(START_NS + s * S).0.floor())).collect(),
    });
    all
}

/// Trials of steps `0..=last` in a row, with a void and repeated step 4 and a repeated broken step.
pub fn trials(last: u32, void_at: Option<u32>, broke: bool) -> Vec<Trial> {
    let mut all: Vec<Trial> = Vec::new();
    let mut at = 6;
    let mut push = |all: &mut Vec<Trial>, step, number, outcome| {
        let made = trial(step, number, at, outcome);
        at = (made.ended_ns - START_NS) / S + 2;
        all.push(made);
    };
    for step in 0..=last {
        let outcome = if step == 0 {
            Outcome::Baseline
        } else if broke && step == last {
            Outcome::Broke
        } else {
            Outcome::Held
        };
        if void_at == Some(step) {
            push(&mut all, step, 1, Outcome::Void);
            push(&mut all, step, 2, outcome);
        } else {
            push(&mut all, step, 1, outcome);
            if outcome == Outcome::Broke {
                push(&mut all, step, 2, outcome);
            }
        }
    }
    all
}

pub fn inventory() -> Inventory {
    let setting = |name: &str, value: &str, source: &str| Setting {
        name: name.into(),
        value: value.into(),
        source: source.into(),
    };
    let limit =
        |name: &str, value: Option<u64>, source: &str| Limit { name: name.into(), value, source: source.into() };
    Inventory {
        nodes: vec![NodeInfo {
            name: NODE.into(),
            version: "3.8.4".into(),
            role: "standalone".into(),
            local: true,
            pid: Some(4_242),
        }],
        settings: vec![
            setting("heap", "1024 MiB", "launch recipe"),
            setting("snapCount", "100000", "conf"),
            setting("tickTime", "2000 ms", "conf"),
            setting("JVM arguments", "-XX:+UseSerialGC -Xlog:gc*:file=gc.log", "launch recipe"),
            setting("forceSync", "yes", "system property"),
        ],
        limits: vec![
            limit("maxClientCnxns", None, "conf"),
            limit("jute.maxbuffer", Some(1_048_575), "default"),
            limit("globalOutstandingLimit", Some(1_000), "default"),
        ],
        sampling: vec![
            "srvr every 1 s".into(),
            "AdminServer monitor every 10 s".into(),
            "GC log".into(),
            "process by sysinfo every 1 s".into(),
        ],
        remarks: vec!["mntr is refused (4lw.commands.whitelist): watches come from the AdminServer.".into()],
    }
}

fn made(name: &str, trials: Vec<Trial>, verdict: Option<Verdict>) -> Made {
    let id = RunId::new();
    let end = trials.last().map_or(START_NS + 20 * S, |trial| trial.ended_ns + 9 * S);
    let until = (end - START_NS) / S;
    let series = series_of(&trials, until);
    let verdict = verdict.map(|verdict| Verdict { run_id: id, steps: trials.clone(), ..verdict });
    let run = RunRow {
        id,
        scenario: name.into(),
        target: "local-zookeeper".into(),
        workload: "domains".into(),
        axis: "domains".into(),
        unit: "domains".into(),
        state: RunState::Finished,
        status: verdict.as_ref().map(|verdict| verdict.status),
        stop_code: verdict.as_ref().map(|verdict| verdict.stop_code),
        last_good: verdict.as_ref().and_then(|verdict| verdict.last_good),
        first_bad: verdict.as_ref().and_then(|verdict| verdict.first_bad),
        sentence: verdict.as_ref().map(|verdict| verdict.sentence.clone()),
        origin: "page".into(),
        created_ns: START_NS - 2 * S,
        started_ns: Some(START_NS),
        ended_ns: Some(end),
    };
    let outline = Outline {
        scenario: name.into(),
        target: "local-zookeeper".into(),
        target_kind: "zookeeper".into(),
        managed: true,
        workload: "domains".into(),
        axis: "domains".into(),
        unit: "domains".into(),
        ladder: (0..=12).map(|step| step * 25).collect(),
        longest_s: 2_400,
        needs: vec![
            Need { what: "sessions".into(), needed: 2_100, available: None },
            Need { what: "open files of this process".into(), needed: 2_260, available: Some(524_288) },
        ],
        remarks: vec!["The window of 45 s may be shorter than one snapshot cycle.".into()],
    };
    let detail = RunDetail {
        run,
        scenario_text: SCENARIO.into(),
        outline,
        inventory: Some(inventory()),
        phase: None,
        trials,
        verdict,
        notes: vec![(START_NS + 3 * S, "ZooKeeper 3.8.4 was launched (pid 4242) and serves.".into())],
        last_seq: 120,
    };
    Made { detail, series, now_ns: end + 60 * S }
}

const SCENARIO: &str = "name = \"saturn-max-load\"\n\n[target]\nrecipe = \"local-zookeeper\"\n\n[load]\nworkload = \"domains\"\nkind = \"ramp\"\nstart = 25\nstep = 25\n\n[[rule]]\nkind = \"throughput_drop\"\noperation = \"get\"\nbelow_share = 0.3\n";

fn verdict(status: Status, code: StopCode, good: Option<u64>, bad: Option<u64>, sentence: &str) -> Verdict {
    Verdict {
        run_id: RunId::new(),
        arm: 0,
        status,
        stop_code: code,
        axis: "domains".into(),
        unit: "domains".into(),
        last_good: good,
        first_bad: bad,
        required: None,
        sentence: sentence.into(),
        evidence: Vec::new(),
        validity: Validity {
            valid: true,
            reasons: Vec::new(),
            start_lag_p99_us: 780,
            missed: 0,
            cpu_share: 0.22,
            shared_machine: true,
        },
        baseline: "step 0, the empty target".into(),
        exit_code: 0,
        steps: Vec::new(),
    }
}

fn evidence(certainty: Certainty, text: &str, since_step: Option<u32>) -> Evidence {
    Evidence { certainty, text: text.into(), since_step, node: NODE.into(), readings: Vec::new() }
}

/// 175 domains hold, 200 do not.
pub fn capacity() -> Made {
    let mut found = verdict(
        Status::CapacityFound,
        StopCode::ThroughputDrop,
        Some(175),
        Some(200),
        "At 200 domains get ran 612 times per second, 14 % of the empty target's 4 234; the rule allows no less than \
         30 %. The second trial broke as well (569 per second). Outstanding requests rose from 61 to 80 while the \
         server used 66 % of this machine's CPU.",
    );
    found.required = Some(150);
    found.evidence = vec![
        evidence(
            Certainty::Likely,
            "The JVM collects too often: heap after collection 850 MB of 1 074 MB, longest pause 1.9 s",
            Some(7),
        ),
        evidence(Certainty::Weak, "Snapshots every 40 s of 460 MB each overlap with the measurement", Some(6)),
        evidence(Certainty::RuledOut, "Connections: 1 402, no limit is set", None),
    ];
    made("saturn-max-load", trials(8, Some(4), true), Some(found))
}

/// The target gave way, with its heap as evidence.
pub fn saturated() -> Made {
    let mut found = verdict(
        Status::CapacityFound,
        StopCode::TargetSaturated,
        Some(150),
        Some(175),
        "While 175 domains were put in place the server ran out of heap: 1 066 MB of 1 074 MB were in use after \
         collection and 94 % of the time went into pauses. Not measured again: the target was gone.",
    );
    found.evidence = vec![
        evidence(Certainty::Strong, "OutOfMemoryError in the server's log at 12:31:07", Some(7)),
        evidence(Certainty::Strong, "Heap after collection 1 066 MB of 1 074 MB", Some(7)),
    ];
    let mut all = trials(7, None, false);
    if let Some(last) = all.last_mut() {
        last.outcome = Outcome::Broke;
        last.stop_code = Some(StopCode::TargetSaturated);
        last.rules.clear();
        last.operations.clear();
        last.incidents.push(Incident {
            at_ns: last.ended_ns,
            kind: IncidentKind::Died,
            node: NODE.into(),
            text: "The server's process ended with status 3.".into(),
            amount: 1.0,
        });
    }
    made("small-heap", all, Some(found))
}

/// In the middle of step 6.
pub fn live() -> Made {
    let mut made = made("saturn-max-load", trials(5, None, false), None);
    let last = made.detail.trials.last().unwrap().ended_ns;
    made.now_ns = last + 31 * S;
    made.detail.run.state = RunState::Running;
    made.detail.run.ended_ns = None;
    made.detail.phase = Some(PhaseNow {
        phase: Phase::Filling,
        step: 6,
        trial: 1,
        load: 150,
        since_ns: last + 2 * S,
        until_ns: Some(last + 90 * S),
        confirmed: Some(141),
    });
    made
}

/// Waits for its turn.
pub fn queued() -> Made {
    let mut made = made("saturn-max-load", Vec::new(), None);
    made.series.clear();
    made.detail.run.state = RunState::Queued;
    made.detail.run.started_ns = None;
    made.detail.run.ended_ns = None;
    made.detail.inventory = None;
    made.detail.notes.clear();
    made
}

pub fn inconclusive() -> Made {
    let text = "At 100 domains the target's maxClientCnxns of 600 was met: a configured limit, not a bottleneck.";
    made(
        "limited",
        trials(3, None, false),
        Some(verdict(Status::Inconclusive, StopCode::LimitReached, Some(75), None, text)),
    )
}

pub fn invalid() -> Made {
    let text = "Every trial of 25 domains was void: Rampart itself was late.";
    let mut found = verdict(Status::Invalid, StopCode::GeneratorSaturated, None, None, text);
    found.validity.valid = false;
    found.validity.reasons = vec!["start lag p99 was 48.2 ms, the limit is 20 ms".into()];
    let mut all = trials(1, Some(1), false);
    for trial in all.iter_mut().skip(1) {
        trial.outcome = Outcome::Void;
    }
    made("too-fast", all, Some(found))
}

pub fn first_load_broke() -> Made {
    let text = "At 10 domains get ran 612 times per second, 14 % of the empty target's 4 234.";
    let mut all = trials(0, None, false);
    for number in 1..=2 {
        let mut broken = trial(8, number, 60 + 70 * i64::from(number), Outcome::Broke);
        (broken.step, broken.load) = (1, 10);
        all.push(broken);
    }
    let mut found = verdict(Status::CapacityFound, StopCode::ThroughputDrop, None, Some(10), text);
    found.required = Some(100);
    made("tiny-disk", all, Some(found))
}

pub fn not_reached() -> Made {
    let text = "All loads up to 200 domains held.";
    made("smoke", trials(7, None, false), Some(verdict(Status::NotReached, StopCode::MaxLoad, Some(200), None, text)))
}

pub fn failed() -> Made {
    let text = "The server was stopped from outside (SIGSTOP) at step 2; no load does that.";
    made(
        "smoke",
        trials(2, None, false),
        Some(verdict(Status::Failed, StopCode::TargetUnhealthy, Some(25), None, text)),
    )
}

pub fn aborted() -> Made {
    let text = "Someone stopped the run at step 3; what it had created was removed.";
    made("smoke", trials(2, None, false), Some(verdict(Status::Aborted, StopCode::UserAbort, Some(50), None, text)))
}

pub fn interrupted() -> Made {
    let mut made = made("smoke", trials(2, None, false), None);
    made.detail.run.state = RunState::Interrupted;
    made
}

/// A name and texts that would run as scripts if anything forgot to escape them.
pub fn hostile() -> Made {
    let evil = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>";
    let mut made = capacity();
    made.detail.run.scenario = evil.into();
    made.detail.run.target = evil.into();
    made.detail.run.unit = evil.into();
    made.detail.scenario_text = format!("</pre>{evil}");
    made.detail.notes.push((START_NS, evil.into()));
    if let Some(verdict) = &mut made.detail.verdict {
        verdict.sentence = evil.into();
        verdict.baseline = evil.into();
        verdict.evidence[0].text = evil.into();
    }
    for trial in &mut made.detail.trials {
        trial.remarks.push(evil.into());
        trial.operations[0].operation = evil.into();
        for rule in &mut trial.rules {
            rule.subject = evil.into();
            rule.text = evil.into();
        }
    }
    made.series[0].node = evil.into();
    made
}

/// One of each.
pub fn all() -> Vec<Made> {
    vec![
        live(),
        queued(),
        capacity(),
        saturated(),
        inconclusive(),
        invalid(),
        first_load_broke(),
        not_reached(),
        failed(),
        aborted(),
        interrupted(),
    ]
}
