//! What each rule alone says of the capacity: what a target can do at all and what it does in good time are two numbers.

use super::figure;
use crate::model::{GoalCapacity, Outcome, RuleReading, Trial};

/// One capacity a rule, in the order of the rules: the lowest load at which most trials broke it, and the highest load
/// below at which most kept it.
#[must_use]
pub(super) fn capacities(history: &[Trial]) -> Vec<GoalCapacity> {
    let judged: Vec<&Trial> = history
        .iter()
        .filter(|trial| trial.load > 0 && trial.decides() && matches!(trial.outcome, Outcome::Held | Outcome::Broke))
        .collect();
    let mut rules: Vec<&RuleReading> = Vec::new();
    for reading in judged.iter().flat_map(|trial| &trial.rules) {
        if !rules.iter().any(|known| same(known, reading)) {
            rules.push(reading);
        }
    }
    let mut loads: Vec<u64> = judged.iter().map(|trial| trial.load).collect();
    loads.sort_unstable();
    loads.dedup();
    rules.into_iter().map(|rule| capacity(rule, &judged, &loads)).collect()
}

fn same(left: &RuleReading, right: &RuleReading) -> bool {
    left.rule == right.rule && left.subject == right.subject
}

fn capacity(rule: &RuleReading, judged: &[&Trial], loads: &[u64]) -> GoalCapacity {
    // Broken less kept, where any trial of the load could say.
    let verdict = |load: u64| {
        let of_load = judged.iter().filter(|trial| trial.load == load);
        let said: Vec<bool> =
            of_load.flat_map(|trial| &trial.rules).filter(|other| same(other, rule)).filter_map(|r| r.broke).collect();
        let broken = said.iter().filter(|broke| **broke).count();
        (!said.is_empty()).then_some(2 * broken > said.len())
    };
    let first_bad = loads.iter().copied().find(|load| verdict(*load) == Some(true));
    let below = |load: &u64| first_bad.is_none_or(|bad| *load < bad);
    let last_good = loads.iter().copied().filter(below).rfind(|load| verdict(*load) == Some(false));
    GoalCapacity {
        rule: rule.rule,
        subject: rule.subject.clone(),
        limit: rule.limit,
        unit: rule.unit.clone(),
        last_good,
        first_bad,
    }
}

/// How many times the peak that is expected a capacity is, in words.
#[must_use]
pub(super) fn headroom(
    peak: u64,
    last_good: u64,
    at_least: bool,
    with_action: Option<(&str, u64)>,
    unit: &str,
) -> String {
    let times = |load: u64| {
        let text = format!("{:.2}", load as f64 / peak as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let least = if at_least { "at least " } else { "" };
    let mut text =
        format!("That is {least}{} times the expected peak of {} {unit}", times(last_good), figure(peak as f64));
    if let Some((words, load)) = with_action {
        text.push_str(&format!("; with {words}, {}", times(load)));
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analysis::judge::tests::trial, model::StopCode};

    fn judged(load: u64, throughput_broke: bool, latency_broke: Option<bool>) -> Trial {
        let reading = |rule, broke| RuleReading {
            rule,
            subject: "get".into(),
            value: None,
            limit: 1.0,
            unit: "ms".into(),
            broke,
            text: String::new(),
        };
        let rules = vec![
            reading(StopCode::AchievedShort, Some(throughput_broke)),
            reading(StopCode::SloLatency, latency_broke),
        ];
        let broke = throughput_broke || latency_broke == Some(true);
        Trial { rules, outcome: if broke { Outcome::Broke } else { Outcome::Held }, ..trial(1, load, vec![]) }
    }

    #[test]
    fn throughput_and_latency_have_a_capacity_each() {
        let history = [
            judged(100, false, Some(false)),
            judged(200, false, Some(true)),
            judged(200, false, Some(true)),
            judged(200, false, Some(false)),
            judged(300, false, Some(true)),
            judged(400, true, None),
        ];
        let found = capacities(&history);
        assert_eq!((found[0].last_good, found[0].first_bad), (Some(300), Some(400)));
        assert_eq!((found[1].last_good, found[1].first_bad), (Some(100), Some(200)));
        assert!(capacities(&[]).is_empty());
    }

    #[test]
    fn headroom_says_how_many_times_the_peak() {
        assert_eq!(
            headroom(400, 600, false, Some(("one server gone", 480)), "domains"),
            "That is 1.5 times the expected peak of 400 domains; with one server gone, 1.2."
        );
        assert_eq!(
            headroom(400, 1_000, true, None, "domains"),
            "That is at least 2.5 times the expected peak of 400 domains."
        );
    }
}
