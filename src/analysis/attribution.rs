//! Why: which resource of which node shows signs of load, and which are ruled out.

use super::figure;
use crate::model::{Certainty, Evidence, IncidentKind, Reading, RuleReading, SeriesStat, Trial};

/// Heap after collection beyond which a server has no room to work in (share of its limit).
pub const HEAP_FULL_SHARE: f64 = 0.85;
/// Time in collection pauses beyond which a server mostly collects (share of the window).
pub const PAUSE_SHARE: f64 = 0.10;
/// One collection pause that stalls clients by itself, in milliseconds.
pub const PAUSE_LONG_MS: f64 = 1_000.0;
/// CPU of all cores beyond which a server has none left (share).
pub const CPU_FULL_SHARE: f64 = 0.90;
/// CPU of one core, and of all cores, below which it is ruled out (share).
pub const CPU_ROOM_SHARE: f64 = 0.70;

/// What shows that the load, and not chance, did something to the target; strongest first. Empty: nothing shows it.
#[must_use]
pub fn signs_of_load(trial: &Trial) -> Vec<Evidence> {
    let mut signs: Vec<Evidence> = trial
        .target_nodes()
        .flat_map(|(node, _)| [heap(trial, node), pauses(trial, node), cpu(trial, node)])
        .flatten()
        .filter(|evidence| evidence.certainty != Certainty::RuledOut)
        .collect();
    if let Some(out_of_memory) = trial.incidents.iter().find(|incident| incident.text.contains("OutOfMemoryError")) {
        signs.insert(0, evidence(Certainty::Strong, &out_of_memory.node, out_of_memory.text.clone(), vec![]));
    }
    signs.sort_by_key(|evidence| rank(evidence.certainty));
    signs
}

/// A broken rule on the target's own counters as a sign of load. A rule on a probe is none: what stopped the target
/// stopped the probe too.
#[must_use]
pub(super) fn sign_of_rule(reading: &RuleReading) -> Evidence {
    evidence(Certainty::Likely, "", reading.text.clone(), vec![])
}

/// The chain that explains the last trial of a run: what broke first, then resources, then what is ruled out.
#[must_use]
pub fn explain(history: &[Trial], decisive: &Trial) -> Vec<Evidence> {
    let mut chain: Vec<Evidence> = decisive
        .rules
        .iter()
        .filter(|reading| reading.broke == Some(true))
        .map(|reading| Evidence {
            certainty: Certainty::Strong,
            text: reading.text.clone(),
            since_step: Some(decisive.step),
            node: String::new(),
            readings: reading
                .value
                .map(|value| Reading {
                    name: reading.subject.clone(),
                    node: String::new(),
                    value,
                    unit: reading.unit.clone(),
                })
                .into_iter()
                .collect(),
        })
        .collect();
    for incident in &decisive.incidents {
        let certainty = match incident.kind {
            IncidentKind::ConnectionClosed | IncidentKind::RoleChanged => Certainty::Likely,
            IncidentKind::Stall
            | IncidentKind::Paused
            | IncidentKind::Died
            | IncidentKind::Restarted
            | IncidentKind::Election
            | IncidentKind::NotOneLeader
            | IncidentKind::SessionExpired
            | IncidentKind::NotServing
            | IncidentKind::CannotApply
            | IncidentKind::FillTimedOut
            | IncidentKind::LimitReached => Certainty::Strong,
        };
        chain.push(evidence(certainty, &incident.node, incident.text.clone(), vec![]));
    }
    for (node, _) in decisive.target_nodes() {
        for mut found in [heap(decisive, node), pauses(decisive, node), cpu(decisive, node)].into_iter().flatten() {
            found.since_step = since(history, &found, node);
            chain.push(found);
        }
    }
    for check in decisive.counts.iter().filter(|check| check.within() == Some(false)) {
        let observed = check.observed.unwrap_or(0);
        chain.push(evidence(
            Certainty::Likely,
            "",
            format!(
                "{}: {} were expected of the load, the server counts {} ({} more or fewer are tolerated)",
                check.what,
                figure(check.expected as f64),
                figure(observed as f64),
                figure(check.tolerance as f64)
            ),
            vec![],
        ));
    }
    chain.sort_by_key(|evidence| rank(evidence.certainty));
    for found in &mut chain {
        found.since_step.get_or_insert(decisive.step);
    }
    chain
}

/// The first step from which the same evidence showed, as surely as now, without a gap up to the end. What is ruled out
/// is ruled out of the decisive trial alone.
fn since(history: &[Trial], found: &Evidence, node: &str) -> Option<u32> {
    if found.certainty == Certainty::RuledOut {
        return None;
    }
    let name = &found.readings.first()?.name;
    history
        .iter()
        .rev()
        .take_while(|trial| {
            [heap(trial, node), pauses(trial, node), cpu(trial, node)].into_iter().flatten().any(|old| {
                rank(old.certainty) <= rank(found.certainty)
                    && old.readings.first().is_some_and(|reading| &reading.name == name)
            })
        })
        .last()
        .map(|trial| trial.step)
}

fn heap(trial: &Trial, node: &str) -> Option<Evidence> {
    let used = trial.metric(node, "heap_after_gc_bytes")?;
    let limit = trial.metric(node, "heap_max_bytes")?.last;
    if limit <= 0.0 {
        return None;
    }
    let share = used.last.max(used.mean) / limit;
    let certainty = if share >= HEAP_FULL_SHARE {
        Certainty::Strong
    } else if share >= 0.7 {
        Certainty::Weak
    } else {
        Certainty::RuledOut
    };
    let words = match certainty {
        Certainty::Strong => "the heap is full",
        Certainty::Weak | Certainty::Likely => "the heap fills up",
        Certainty::RuledOut => "the heap has room",
    };
    let text = format!(
        "{words}: {} of {} MiB in use after collection ({} %)",
        figure(used.last.max(used.mean) / MIB),
        figure(limit / MIB),
        figure(share * 100.0)
    );
    Some(evidence(
        certainty,
        node,
        text,
        vec![reading("heap_after_gc_bytes", node, used.last, "bytes"), reading("heap_max_bytes", node, limit, "bytes")],
    ))
}

fn pauses(trial: &Trial, node: &str) -> Option<Evidence> {
    let share = trial.metric(node, "gc_pause_share")?;
    let longest = trial.metric(node, "gc_pause_max_ms")?;
    let certainty = if share.mean >= PAUSE_SHARE || longest.max >= PAUSE_LONG_MS {
        Certainty::Strong
    } else if share.mean >= PAUSE_SHARE / 5.0 {
        Certainty::Weak
    } else {
        Certainty::RuledOut
    };
    let text = format!(
        "collection pauses took {} % of the time, the longest {} ms",
        figure(share.mean * 100.0),
        figure(longest.max)
    );
    Some(evidence(
        certainty,
        node,
        text,
        vec![reading("gc_pause_share", node, share.mean, "share"), reading("gc_pause_max_ms", node, longest.max, "ms")],
    ))
}

/// CPU of the server's process. One full thread can be the limit, and others on the same machine may take the rest:
/// only a server that is far from both is ruled out, and in between nothing is said.
fn cpu(trial: &Trial, node: &str) -> Option<Evidence> {
    let SeriesStat { mean, .. } = trial.metric(node, "process_cpu_share")?;
    let health = &trial.health;
    let machine = mean + health.cpu_share.unwrap_or(0.0) + health.steal_share.unwrap_or(0.0);
    let threads = mean * f64::from(health.cores.max(1));
    let certainty = if *mean >= CPU_FULL_SHARE {
        Certainty::Likely
    } else if machine >= CPU_FULL_SHARE {
        Certainty::Weak
    } else if threads < CPU_ROOM_SHARE && machine < CPU_ROOM_SHARE {
        Certainty::RuledOut
    } else {
        return None;
    };
    let text = format!(
        "the server used {} % of its machine's cores, with Rampart {} %",
        figure(mean * 100.0),
        figure(machine * 100.0)
    );
    Some(evidence(certainty, node, text, vec![reading("process_cpu_share", node, *mean, "share")]))
}

const MIB: f64 = 1_048_576.0;

const fn rank(certainty: Certainty) -> u8 {
    match certainty {
        Certainty::Strong => 0,
        Certainty::Likely => 1,
        Certainty::Weak => 2,
        Certainty::RuledOut => 3,
    }
}

fn evidence(certainty: Certainty, node: &str, text: String, readings: Vec<Reading>) -> Evidence {
    Evidence { certainty, text, since_step: None, node: node.to_owned(), readings }
}

fn reading(name: &str, node: &str, value: f64, unit: &str) -> Reading {
    Reading { name: name.to_owned(), node: node.to_owned(), value, unit: unit.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::judge::tests::trial;

    #[test]
    fn a_full_heap_is_dated_from_when_it_was_full_and_not_from_when_it_filled_up() {
        let stat = |value| SeriesStat {
            mean: value,
            min: value,
            max: value,
            last: value,
            readings: 5,
            ..SeriesStat::default()
        };
        let history: Vec<Trial> = [30.0, 75.0, 90.0, 95.0]
            .iter()
            .zip(0..)
            .map(|(used, step)| {
                let mut made = trial(step, u64::from(step), vec![]);
                let heap =
                    [("heap_after_gc_bytes".to_owned(), stat(*used)), ("heap_max_bytes".to_owned(), stat(100.0))];
                made.nodes.insert("a".into(), BTreeMap::from(heap));
                made
            })
            .collect();
        let since = |decisive: usize| explain(&history[..=decisive], &history[decisive])[0].since_step;
        assert_eq!(since(3), Some(2), "full from step 2; at step 1 it only filled up");
        assert_eq!(since(1), Some(1));
        assert_eq!(since(0), Some(0), "ruled out of the trial that was looked at");
    }
}
