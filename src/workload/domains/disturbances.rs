//! What disturbs the steady traffic while a load is measured: jobs that run at the same moment, executors that start
//! anew, connections that are cut. When, and whom; pure. How sessions come back stands in `comeback.rs`.

use serde::Deserialize;

use super::{Options, within};
use crate::model::{Fault, clock::seconds_ns};

/// A share of the jobs has no phase of its own: all of them run at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    pub every_s: f64,
    pub share: f64,
}

/// So many executors, of all domains, close their session and come back with a new one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restarts {
    pub every_s: f64,
    pub executors: u32,
}

/// The connections of a share of all sessions are cut; the sessions attach again at once.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storm {
    pub every_s: f64,
    pub share: f64,
}

/// A run of a job takes 2 s: it must be over before the next burst.
const EVERY_MIN_S: f64 = 5.0;
const EVERY_MAX_S: f64 = 86_400.0;
const SHARE_MIN: f64 = 0.001;

pub(super) fn check(options: &Options) -> Result<(), Fault> {
    if let Some(burst) = options.burst {
        within("burst.every_s", burst.every_s, EVERY_MIN_S, EVERY_MAX_S)?;
        within("burst.share", burst.share, SHARE_MIN, 1.0)?;
        if !options.traffic {
            return Err(Fault::new("burst", "needs `traffic = true`: without traffic no job runs"));
        }
    }
    if let Some(restarts) = options.restarts {
        within("restarts.every_s", restarts.every_s, EVERY_MIN_S, EVERY_MAX_S)?;
        within("restarts.executors", f64::from(restarts.executors), 1.0, 10_000.0)?;
    }
    if let Some(storm) = options.storm {
        within("storm.every_s", storm.every_s, EVERY_MIN_S, EVERY_MAX_S)?;
        within("storm.share", storm.share, SHARE_MIN, 1.0)?;
    }
    Ok(())
}

/// What a reader of the result must know of them.
pub(super) fn remarks(options: &Options) -> Vec<String> {
    let shape = options.shape();
    let mut remarks = Vec::new();
    if let Some(Burst { every_s, share }) = options.burst {
        remarks.push(format!(
            "Every {every_s} s of a measurement {share} of all jobs start at the same moment; these have no phase of their own and rest outside of measurements."
        ));
    }
    if let Some(Restarts { every_s, executors }) = options.restarts {
        remarks.push(format!(
            "Every {every_s} s of a measurement {executors} executors close their session and come back with a new one; each sets {} watches again. Job runs meanwhile are missed.",
            shape.executor_watches()
        ));
    }
    if let Some(Storm { every_s, share }) = options.storm {
        remarks.push(format!(
            "Every {every_s} s of a measurement the connections of {share} of all sessions are cut, and attached again at once with all their watches."
        ));
    }
    if !remarks.is_empty() {
        remarks.push("The first comes after half of its interval: a measurement that is shorter sees none.".to_owned());
    }
    remarks
}

/// Whether a job has no phase of its own, so that of any number of neighbouring jobs the share is met as exactly as
/// whole jobs can.
pub(super) fn joins_burst(share: f64, jobs: u32, domain: u32, job: u16) -> bool {
    let number = f64::from(domain) * f64::from(jobs) + f64::from(job);
    ((number + 1.0) * share).floor() > (number * share).floor()
}

/// `count` different numbers of `0..of`, evenly apart, from a place that depends on the seed.
pub(super) fn picked(seed: u64, count: u64, of: u64) -> impl Iterator<Item = u64> {
    let count = count.min(of);
    let apart = of.checked_div(count).unwrap_or(0);
    // SplitMix64, so that seeds that differ little begin far from each other.
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^= z >> 27;
    (0..count).map(move |n| (z % of + n * apart) % of)
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Burst,
    Restarts,
    Storm,
}

/// A moment at which something happens: the `number`-th of its kind in its measurement, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disturbance {
    pub(super) kind: Kind,
    pub(super) at_ns: i64,
    pub(super) number: u64,
}

/// The moments of one kind.
#[derive(Debug)]
struct Beat {
    kind: Kind,
    every_ns: i64,
    next: Option<(i64, u64)>,
}

/// The moments of all kinds, the same in every measurement, so that loads can be compared.
#[derive(Debug)]
pub(super) struct Disturbances {
    beats: Vec<Beat>,
    until_ns: i64,
}

impl Disturbances {
    pub(super) fn new(options: &Options) -> Self {
        let wanted = [
            (Kind::Burst, options.burst.map(|burst| burst.every_s)),
            (Kind::Restarts, options.restarts.map(|restarts| restarts.every_s)),
            (Kind::Storm, options.storm.map(|storm| storm.every_s)),
        ];
        let beats = wanted
            .into_iter()
            .filter_map(|(kind, every_s)| Some(Beat { kind, every_ns: seconds_ns(every_s?), next: None }))
            .collect();
        Self { beats, until_ns: 0 }
    }

    /// A measurement goes from here to there.
    pub(super) fn hold(&mut self, from_ns: i64, until_ns: i64) {
        self.until_ns = until_ns;
        for beat in &mut self.beats {
            beat.next = Some((from_ns + beat.every_ns / 2, 0)).filter(|(at_ns, _)| *at_ns < until_ns);
        }
    }

    /// No measurement goes on any more.
    pub(super) fn clear(&mut self) {
        self.beats.iter_mut().for_each(|beat| beat.next = None);
    }

    /// What happens by now, one at a time.
    pub(super) fn pop(&mut self, now_ns: i64) -> Option<Disturbance> {
        let until_ns = self.until_ns;
        let beat = self.beats.iter_mut().find(|beat| beat.next.is_some_and(|(at_ns, _)| at_ns <= now_ns))?;
        let (at_ns, number) = beat.next?;
        beat.next = Some((at_ns + beat.every_ns, number + 1)).filter(|(at_ns, _)| *at_ns < until_ns);
        Some(Disturbance { kind: beat.kind, at_ns, number })
    }

    /// When the next one comes.
    pub(super) fn next_ns(&self) -> Option<i64> {
        self.beats.iter().filter_map(|beat| Some(beat.next?.0)).min()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn disturbances_come_within_measurements_and_alike_in_each() {
        let options = Options {
            burst: Some(Burst { every_s: 60.0, share: 0.5 }),
            storm: Some(Storm { every_s: 20.0, share: 1.0 }),
            ..Options::default()
        };
        let mut disturbances = Disturbances::new(&options);
        assert_eq!((disturbances.next_ns(), disturbances.pop(i64::MAX)), (None, None), "none before");
        for from_s in [100, 1_000] {
            disturbances.hold(from_s * S, (from_s + 60) * S);
            assert_eq!(disturbances.next_ns(), Some((from_s + 10) * S));
            assert_eq!(disturbances.pop((from_s + 10) * S - 1), None, "not too early");
            let mut seen = Vec::new();
            while let Some(next_ns) = disturbances.next_ns() {
                let Disturbance { kind, at_ns, number } = disturbances.pop(next_ns).unwrap();
                seen.push((kind, at_ns / S - from_s, number));
            }
            let want = [(Kind::Storm, 10, 0), (Kind::Burst, 30, 0), (Kind::Storm, 30, 1), (Kind::Storm, 50, 2)];
            assert_eq!(seen, want);
        }
        disturbances.hold(0, 10 * S);
        assert_eq!(disturbances.next_ns(), None, "too short a measurement sees none");
        disturbances.hold(0, 100 * S);
        disturbances.clear();
        assert_eq!(disturbances.pop(i64::MAX), None);
    }

    #[test]
    fn options_outside_their_range_are_named() {
        let field = |text: &str| super::super::build(toml::from_str(text).unwrap()).unwrap_err().field;
        assert_eq!(field("burst = { every_s = 4, share = 0.5 }"), "burst.every_s");
        assert_eq!(field("burst = { every_s = 60, share = 1.5 }"), "burst.share");
        assert_eq!(field("burst = { every_s = 60, share = 0.5 }\ntraffic = false"), "burst");
        assert_eq!(field("restarts = { every_s = 10, executors = 0 }"), "restarts.executors");
        assert_eq!(field("storm = { every_s = 10 }"), "storm.share");
        assert_eq!(field("storm = { every_s = 10, share = 0 }"), "storm.share");
    }

    proptest! {
        #[test]
        fn as_many_are_picked_as_asked_and_none_twice(seed: u64, count in 0_u64..500, of in 0_u64..2_000) {
            let all: Vec<u64> = picked(seed, count, of).collect();
            prop_assert_eq!(all.len() as u64, count.min(of));
            prop_assert!(all.iter().all(|n| *n < of));
            prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
            prop_assert_eq!(all, picked(seed, count, of).collect::<Vec<_>>());
        }

        #[test]
        fn the_share_of_a_burst_is_met(share in 0.001_f64..=1.0, jobs in 1_u32..50, domains in 1_u32..30) {
            let joining = (0..domains)
                .flat_map(|domain| (0..u16::try_from(jobs).unwrap()).map(move |job| (domain, job)))
                .filter(|(domain, job)| joins_burst(share, jobs, *domain, *job))
                .count();
            let want = f64::from(domains * jobs) * share;
            prop_assert!((joining as f64 - want).abs() <= 1.0, "{} of {}", joining, want);
        }
    }
}
