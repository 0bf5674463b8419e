//! Why: which resource of which node shows signs of load, and which are ruled out.

mod resources;

use super::figure;
use crate::model::{Certainty, Evidence, IncidentKind, Reading, RuleReading, Trial};
use resources::of_node;

/// What shows that the load, and not chance, did something to the target; strongest first. Empty: nothing shows it.
#[must_use]
pub fn signs_of_load(trial: &Trial) -> Vec<Evidence> {
    let mut signs: Vec<Evidence> = trial
        .target_nodes()
        .flat_map(|(node, _)| of_node(trial, node))
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
        for mut found in of_node(decisive, node) {
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
            of_node(trial, node).into_iter().any(|old| {
                rank(old.certainty) <= rank(found.certainty)
                    && old.readings.first().is_some_and(|reading| &reading.name == name)
            })
        })
        .last()
        .map(|trial| trial.step)
}

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
    use crate::{analysis::judge::tests::trial, model::SeriesStat};

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
