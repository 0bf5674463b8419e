//! `[guards]`: what is on without a word, and what a scenario says of each.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    analysis::{Guard, Threshold},
    model::Fault,
};

/// The longest that a guard may wait, in seconds.
const FOR_MAX_S: f64 = 3_600.0;

/// What stands behind a guard's key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected true, false, a limit, or a table such as { limit = 0.9, for_s = 10 }")]
pub(super) enum Guarded {
    /// With its own defaults, or off.
    Switch(bool),
    /// With this limit; 0 is off.
    Limit(f64),
    Table(Table),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(default)]
    limit: Option<f64>,
    #[serde(default)]
    for_s: Option<f64>,
}

/// The guards that are on. Somebody lives with a target that Rampart did not launch: there all are, unless the scenario
/// says otherwise; on one of the run's own none is.
pub(super) fn read(written: &BTreeMap<String, Guarded>, managed: bool) -> (BTreeMap<Guard, Threshold>, Vec<Fault>) {
    let mut faults = Vec::new();
    for key in written.keys().filter(|key| Guard::ALL.iter().all(|guard| guard.key() != key.as_str())) {
        let allowed = Guard::ALL.map(Guard::key).join(", ");
        faults.push(Fault::new(format!("guards.{key}"), format!("is no guard; allowed: {allowed}")));
    }
    let mut on = BTreeMap::new();
    for guard in Guard::ALL {
        let default = guard.default_threshold();
        let threshold = match written.get(guard.key()) {
            None => (!managed).then_some(default),
            Some(Guarded::Switch(switch)) => switch.then_some(default),
            Some(Guarded::Limit(limit)) => (*limit != 0.0).then_some(Threshold { limit: *limit, ..default }),
            Some(Guarded::Table(Table { limit, for_s })) => {
                Some(Threshold { limit: limit.unwrap_or(default.limit), for_s: for_s.unwrap_or(default.for_s) })
            }
        };
        let Some(threshold) = threshold else { continue };
        let (least, most) = guard.range();
        let field = format!("guards.{}", guard.key());
        if !(least..=most).contains(&threshold.limit) {
            let allowed = format!("is {}; allowed: {least} to {most}, or false", threshold.limit);
            faults.push(Fault::new(&field, allowed));
        }
        if !(0.0..=FOR_MAX_S).contains(&threshold.for_s) {
            let allowed = format!("is {}; allowed: 0 to {FOR_MAX_S}", threshold.for_s);
            faults.push(Fault::new(format!("{field}.for_s"), allowed));
        }
        on.insert(guard, threshold);
    }
    (on, faults)
}

/// The guards that are on, in a sentence; none without any.
pub(super) fn remark(guards: &BTreeMap<Guard, Threshold>) -> Option<String> {
    let each = |(guard, threshold): (&Guard, &Threshold)| {
        format!("{} {} for {} s", guard.key(), threshold.limit, threshold.for_s)
    };
    let on: Vec<String> = guards.iter().map(each).collect();
    (!on.is_empty()).then(|| format!("Guards stop the run at once (`safety_abort`): {}.", on.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> BTreeMap<String, Guarded> {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn all_are_on_for_a_target_of_others_and_none_for_one_of_the_runs_own() {
        assert_eq!(read(&written(""), false).0.len(), Guard::ALL.len());
        assert!(read(&written(""), true).0.is_empty());
        let (on, faults) = read(&written("heap_share = true\noutstanding = { limit = 5, for_s = 1 }"), true);
        assert!(faults.is_empty());
        assert_eq!(on[&Guard::HeapShare], Guard::HeapShare.default_threshold());
        assert_eq!(on[&Guard::Outstanding], Threshold { limit: 5.0, for_s: 1.0 });
        assert_eq!(on.len(), 2);
    }

    #[test]
    fn each_can_be_set_or_switched_off() {
        let text = "heap_share = false\ncanary_ms = 0\noutstanding = 50\nothers_lost = { for_s = 60 }";
        let (on, faults) = read(&written(text), false);
        assert!(faults.is_empty());
        assert!(!on.contains_key(&Guard::HeapShare) && !on.contains_key(&Guard::CanaryMs));
        assert_eq!(on[&Guard::Outstanding], Threshold { limit: 50.0, for_s: 10.0 });
        assert_eq!(on[&Guard::OthersLost], Threshold { limit: 5.0, for_s: 60.0 });
        assert_eq!(on[&Guard::DiskFreeBytes], Guard::DiskFreeBytes.default_threshold());
    }

    #[test]
    fn what_is_not_allowed_is_named_with_what_is() {
        for (text, field, part) in [
            ("heap = 0.9", "guards.heap", "heap_share, disk_free_bytes, outstanding, canary_ms, others_lost"),
            ("heap_share = 90", "guards.heap_share", "is 90; allowed: 0.01 to 1, or false"),
            ("heap_share = nan", "guards.heap_share", "is NaN"),
            ("canary_ms = { limit = 0.5 }", "guards.canary_ms", "is 0.5; allowed: 1 to"),
            ("outstanding = { for_s = -1 }", "guards.outstanding.for_s", "is -1; allowed: 0 to 3600"),
        ] {
            let (_, faults) = read(&written(text), false);
            assert_eq!((faults.len(), faults[0].field.as_str()), (1, field), "{text}");
            assert!(faults[0].message.contains(part), "{text}: {}", faults[0]);
        }
    }
}
