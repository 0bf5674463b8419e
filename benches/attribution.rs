//! Bottlenecks that were planted in a real ZooKeeper, and what the verdict named. Needs root and control groups (version 1) for
//! quotas; a case whose means are missing is told loudly and not counted.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod common;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use common::{Figure, finish};
use rampart::{
    config::Config,
    engine,
    model::{Certainty, Phase, RunEvent, RunId, StopCode, Verdict},
    scenario::{Origin, Plan, Scenario, Surroundings, plan},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What is wrong with the target, or with the generator.
#[derive(Debug, Clone, Copy)]
enum Plant {
    /// Share of one core that the server may use.
    CpuQuota(f64),
    /// Writes to the disk that the server may make each second.
    DiskWrites(u32),
    /// Settings of the recipe, as TOML.
    Settings(&'static str),
    /// The server is stopped by a signal for so many of so many milliseconds, over and over.
    Stopped { of_ms: u64, each_ms: u64 },
    /// Share of one core that the generator may use.
    Generator(f64),
    /// Nothing: a load that the target carries.
    Nothing,
}

/// What a case asks, and the answer that is right.
struct Case {
    name: &'static str,
    plant: Plant,
    /// `[load]` and its options.
    load: &'static str,
    /// The first reading of the evidence, a stop code, or an incident's word.
    right: &'static str,
}

const WRITES: &str = "workload = \"zookeeper.requests\"\noptions = { read_share = 0.0, sessions = 8, records = 200, in_flight_max = 1500 }\n";
const MIXED: &str = "workload = \"zookeeper.requests\"\noptions = { read_share = 0.9, sessions = 8, records = 200, in_flight_max = 1500 }\n";
const DOMAINS: &str = "workload = \"zookeeper.domains\"\noptions = { fill = \"fast\", fill_per_s = 50 }\n";

/// Every case. A line adds one.
const CASES: &[Case] = &[
    Case { name: "CPU quota 10 %", plant: Plant::CpuQuota(0.10), load: MIXED, right: "cpu_throttled_share" },
    Case { name: "CPU quota 15 %", plant: Plant::CpuQuota(0.15), load: MIXED, right: "cpu_throttled_share" },
    Case { name: "CPU quota 20 %", plant: Plant::CpuQuota(0.20), load: MIXED, right: "cpu_throttled_share" },
    Case { name: "CPU quota 25 %, writes", plant: Plant::CpuQuota(0.25), load: WRITES, right: "cpu_throttled_share" },
    Case { name: "CPU quota 30 %", plant: Plant::CpuQuota(0.30), load: MIXED, right: "cpu_throttled_share" },
    Case { name: "disk 20 writes/s", plant: Plant::DiskWrites(20), load: WRITES, right: "fsync_mean_ms" },
    Case { name: "disk 40 writes/s", plant: Plant::DiskWrites(40), load: WRITES, right: "fsync_mean_ms" },
    Case { name: "disk 60 writes/s", plant: Plant::DiskWrites(60), load: WRITES, right: "fsync_mean_ms" },
    Case { name: "disk 40 writes/s, mixed", plant: Plant::DiskWrites(40), load: MIXED, right: "fsync_mean_ms" },
    Case {
        name: "throttle at 2 requests",
        plant: Plant::Settings("system_properties = { \"zookeeper.request_throttle_max_requests\" = \"2\" }"),
        load: MIXED,
        right: "throttle_waits_per_s",
    },
    Case {
        name: "throttle at 2 requests, writes",
        plant: Plant::Settings("system_properties = { \"zookeeper.request_throttle_max_requests\" = \"2\" }"),
        load: WRITES,
        right: "throttle_waits_per_s",
    },
    Case {
        name: "heap of 40 MiB",
        plant: Plant::Settings("heap_mib = 40"),
        load: DOMAINS,
        right: "heap_after_gc_bytes",
    },
    Case {
        name: "heap of 56 MiB",
        plant: Plant::Settings("heap_mib = 56"),
        load: DOMAINS,
        right: "heap_after_gc_bytes",
    },
    Case {
        name: "30 connections an address",
        plant: Plant::Settings("zoo_cfg = { maxClientCnxns = 5 }"),
        load: "workload = \"zookeeper.domains\"\noptions = { fill = \"fast\", fill_per_s = 50, executors = 30 }\n",
        right: "limit_reached",
    },
    Case {
        name: "snapshot each 200 writes",
        plant: Plant::Settings("zoo_cfg = { snapCount = 200 }"),
        load: "workload = \"zookeeper.requests\"\noptions = { read_share = 0.0, sessions = 8, records = 50000, value_bytes = 500 }\n",
        right: "snapshots",
    },
    Case {
        name: "stopped 300 of 1000 ms",
        plant: Plant::Stopped { of_ms: 300, each_ms: 1_000 },
        load: MIXED,
        right: "paused",
    },
    Case {
        name: "stopped 600 of 2000 ms",
        plant: Plant::Stopped { of_ms: 600, each_ms: 2_000 },
        load: MIXED,
        right: "paused",
    },
    Case {
        name: "generator at 5 % of a core",
        plant: Plant::Generator(0.05),
        load: MIXED,
        right: "generator_saturated",
    },
    Case {
        name: "generator at 8 % of a core",
        plant: Plant::Generator(0.08),
        load: MIXED,
        right: "generator_saturated",
    },
    Case {
        name: "generator at 10 %, writes",
        plant: Plant::Generator(0.10),
        load: WRITES,
        right: "generator_saturated",
    },
    Case {
        name: "nothing wrong",
        plant: Plant::Nothing,
        load: "workload = \"zookeeper.requests\"\noptions = { read_share = 0.9, sessions = 8, records = 200, in_flight_max = 1500 }\nmax = 400\n",
        right: "max_load",
    },
];

fn scenario(case: &Case) -> String {
    let population = case.load.contains("domains");
    let (start, step, max) = if population { (10, 20, 400) } else { (200, 4_000, 16_200) };
    let max = if case.load.contains("\nmax = ") { String::new() } else { format!("max = {max}\n") };
    let settings = match case.plant {
        Plant::Settings(settings) => settings,
        Plant::CpuQuota(_) | Plant::DiskWrites(_) | Plant::Stopped { .. } | Plant::Generator(_) | Plant::Nothing => "",
    };
    let (probe, rules) = if population {
        (
            "[[probe]]\nkind = \"zookeeper.latencies\"\ncount = 300\nmax_s = 5\n",
            "[[rule]]\nkind = \"throughput_drop\"\noperation = \"get\"\nbelow = 0.3\n",
        )
    } else {
        ("", "[[rule]]\nkind = \"slo_latency\"\noperation = \"set\"\npercentile = 0.95\nlimit_ms = 100\n")
    };
    format!(
        "name = \"planted\"\n[target]\nkind = \"zookeeper\"\nlaunch = \"planted\"\nsettings = {{ {settings} }}\n\
         [load]\nkind = \"ramp\"\nstart = {start}\nstep = {step}\n{max}settle_s = 1\nmeasure_s = 6\nwarm_up_s = 1\n{}{probe}{rules}",
        case.load
    )
}

const RECIPE: &str = "[recipes.planted]\nkind = \"zookeeper\"\nlauncher = \"local\"\nheap_mib = 256\n\
    jvm_args = [\"-XX:+UseSerialGC\"]\nallow = [\"heap_mib\", \"zoo_cfg.snapCount\", \"zoo_cfg.maxClientCnxns\", \
    \"system_properties\"]\n";

/// A control group of this bench's own; gone with it.
struct Group(PathBuf);

impl Group {
    fn new(controller: &str, settings: &[(&str, String)]) -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup").join(controller).join(format!("rampart-planted-{}", std::process::id()));
        fs::create_dir_all(&path).ok()?;
        settings.iter().try_for_each(|(file, value)| fs::write(path.join(file), value)).ok()?;
        Some(Self(path))
    }

    fn cpu(cores: f64) -> Option<Self> {
        Self::new(
            "cpu",
            &[("cpu.cfs_period_us", "100000".to_owned()), ("cpu.cfs_quota_us", format!("{:.0}", cores * 100_000.0))],
        )
    }

    fn disk(writes_per_s: u32) -> Option<Self> {
        let device = disk_of(&std::env::temp_dir())?;
        Self::new("blkio", &[("blkio.throttle.write_iops_device", format!("{device} {writes_per_s}"))])
    }

    fn take(&self, pid: u32) -> bool {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).is_ok()
    }

    /// Lets go of everything that is in it.
    fn release(&self) {
        let root = self.0.parent().map(|parent| parent.join("cgroup.procs"));
        let held = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in held.lines() {
            let _ = root.as_ref().map(|root| fs::write(root, pid));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.release();
        let _ = fs::remove_dir(&self.0);
    }
}

/// Major and minor number of the disk that a folder lies on.
fn disk_of(folder: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let device = fs::metadata(folder).ok()?.dev();
    Some(format!("{}:{}", (device >> 8) & 0xfff, device & 0xff))
}

/// The plan of a case. Panics where it is not sound: the table is wrong then.
fn planned(case: &Case) -> Plan {
    let config = Config::parse(RECIPE).expect("the recipe is sound");
    let text = scenario(case);
    let scenario = Scenario::parse(&text).unwrap_or_else(|faults| panic!("{}: {faults}\n{text}", case.name));
    plan(&scenario, &config, Origin::LocalUser, &Surroundings::default())
        .unwrap_or_else(|faults| panic!("{}: {faults}", case.name))
}

/// Runs a case to its verdict; `None` where its means are missing.
async fn run(case: &Case) -> Option<Verdict> {
    let plan = planned(case);
    let group = match case.plant {
        Plant::CpuQuota(cores) => Some(Group::cpu(cores)?),
        Plant::DiskWrites(writes) => Some(Group::disk(writes)?),
        Plant::Generator(cores) => Some(Group::cpu(cores)?),
        Plant::Settings(_) | Plant::Stopped { .. } | Plant::Nothing => None,
    };
    let (events, mut heard) = mpsc::channel(64);
    let done = CancellationToken::new();
    let running = tokio::spawn(engine::run(plan, RunId::new(), events, done.clone()));
    let (mut pids, mut planted) = (Vec::new(), false);
    let mut duty = None;
    while let Some(event) = heard.recv().await {
        match event {
            RunEvent::Launched { pid, .. } => pids.push(pid),
            // The empty target is measured as it is; what is planted comes with the load.
            RunEvent::Trial { .. } if !planted => {
                planted = true;
                let taken = match (case.plant, &group) {
                    (Plant::CpuQuota(_) | Plant::DiskWrites(_), Some(group)) => pids.iter().all(|pid| group.take(*pid)),
                    (Plant::Generator(_), Some(group)) => group.take(std::process::id()),
                    (Plant::Stopped { of_ms, each_ms }, _) => {
                        duty = Some(tokio::spawn(stop_and_go(pids[0], of_ms, each_ms)));
                        true
                    }
                    _ => true,
                };
                if !taken {
                    done.cancel();
                }
            }
            // Whatever was held back may end as it likes.
            RunEvent::Phase { phase: Phase::Cleaning, .. } | RunEvent::Verdict { .. } => {
                if let Some(group) = &group {
                    group.release();
                }
            }
            RunEvent::Phase { .. }
            | RunEvent::Inventory { .. }
            | RunEvent::Root { .. }
            | RunEvent::Progress { .. }
            | RunEvent::Samples { .. }
            | RunEvent::Note { .. }
            | RunEvent::Trial { .. } => {}
        }
    }
    if let Some(duty) = duty {
        duty.abort();
    }
    let verdict = running.await.expect("the run ends");
    (verdict.stop_code != StopCode::UserAbort).then_some(verdict)
}

async fn stop_and_go(pid: u32, of_ms: u64, each_ms: u64) {
    let signal = |name: &'static str| async move {
        let _ = tokio::process::Command::new("kill").args([name, &pid.to_string()]).output().await;
    };
    loop {
        signal("-STOP").await;
        tokio::time::sleep(Duration::from_millis(of_ms)).await;
        signal("-CONT").await;
        tokio::time::sleep(Duration::from_millis(each_ms - of_ms)).await;
    }
}

/// What a verdict named, and how surely: a stop code where that is the answer, else the first evidence of a resource.
fn named(verdict: &Verdict) -> (String, &'static str) {
    if matches!(verdict.stop_code, StopCode::LimitReached | StopCode::GeneratorSaturated | StopCode::MaxLoad) {
        return (verdict.stop_code.as_str().to_owned(), "strong");
    }
    if verdict
        .steps
        .iter()
        .flat_map(|trial| &trial.incidents)
        .any(|incident| incident.kind == rampart::model::IncidentKind::Paused)
    {
        return ("paused".to_owned(), "strong");
    }
    let of_resource = verdict.evidence.iter().find(|evidence| {
        !evidence.node.is_empty() && evidence.certainty != Certainty::RuledOut && !evidence.readings.is_empty()
    });
    of_resource.map_or(("unknown".to_owned(), "unknown"), |evidence| {
        (evidence.readings[0].name.clone(), evidence.certainty.as_str())
    })
}

fn is_right(name: &str, right: &str) -> bool {
    // A full heap and the pauses of its collector are one thing.
    name == right || (right == "heap_after_gc_bytes" && name == "gc_pause_share")
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let only = std::env::var("RAMPART_CASE").unwrap_or_default();
    // A fault of the last case must not be found after a quarter of an hour.
    CASES.iter().for_each(|case| drop(planned(case)));
    let mut table =
        String::from("| planted | named | how sure | right | stop code |\n| :--- | :--- | :--- | :--- | :--- |\n");
    let (mut count, mut right, mut wrong_strong) = (0_usize, 0_usize, 0_usize);
    let mut starved: BTreeMap<bool, usize> = BTreeMap::new();
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        let Some(verdict) = run(case).await else {
            println!("NOT RUN: {}: its means are missing on this machine", case.name);
            continue;
        };
        let (name, certainty) = named(&verdict);
        let fits = is_right(&name, case.right);
        println!("{}: {name} ({certainty}), asked for {}: {}", case.name, case.right, verdict.sentence);
        let _ = writeln!(
            table,
            "| {} | {name} | {certainty} | {} | {} |",
            case.name,
            if fits { "yes" } else { "NO" },
            verdict.stop_code
        );
        count += 1;
        right += usize::from(fits);
        wrong_strong += usize::from(!fits && certainty == "strong");
        if matches!(case.plant, Plant::Generator(_)) {
            *starved.entry(fits).or_default() += 1;
        }
    }
    println!("{table}");
    common::document("attribution", &table);
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let caught = starved.get(&true).copied().unwrap_or(0);
    let starved_all: usize = starved.values().sum();
    finish(
        "attribution",
        &[
            Figure::plain("attribution.cases", count as f64, "cases"),
            Figure::at_least("attribution.right_share", share(right, count), "share of cases", ">= 0.9", 0.9),
            Figure::at_most(
                "attribution.wrong_strong_share",
                share(wrong_strong, count),
                "share of cases",
                "<= 0.02",
                0.02,
            ),
            Figure::at_least(
                "validity.starved_caught_share",
                share(caught, starved_all),
                "share of cases",
                ">= 1",
                1.0,
            ),
        ],
    );
}
