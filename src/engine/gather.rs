//! What a trial saw, put together: summaries, histograms, the generator's own health, incidents.

use std::collections::BTreeMap;

use super::Floor;
use crate::{
    model::{
        Distribution, Health, HistogramRecord, Incident, IncidentKind, OperationStat, Sample, SeriesStat, Trial, clock,
        metric::{self, GENERATOR},
    },
    workload::{
        ProbeReport,
        recorder::{Merged, NamedHistogram},
    },
};

impl Floor {
    /// Puts together what the trial saw.
    pub(super) fn gather(&mut self, trial: &mut Trial, probes: ProbeReport) -> (Vec<HistogramRecord>, Vec<Sample>) {
        self.intake.settle_silences();
        let measured = trial.measure_s > 0.0;
        trial.ended_ns = self.intake.clock.now_ns();
        let from_ns = if measured { trial.measure_from_ns } else { trial.started_ns };
        let until_ns =
            if measured { trial.measure_from_ns + clock::seconds_ns(trial.measure_s) } else { trial.ended_ns };
        let samples = within(&self.intake.samples, from_ns, until_ns);
        trial.nodes = summaries(&samples);
        if measured {
            put_rises(&mut trial.nodes, &self.intake.samples, from_ns, until_ns);
        }
        self.put_census(trial);
        // Blocks are cut at whole seconds, a little late at most: one belongs to the second in which it began.
        let mut merged = Merged::default();
        let mut whole = Merged::default();
        let slack_ns = 200_000_000;
        for block in &self.intake.blocks {
            whole.add(block);
            if measured && block.from_ns + slack_ns >= from_ns && block.to_ns <= until_ns + slack_ns {
                merged.add(block);
            }
        }
        let stream = self.plan.scenario.workload.about().name;
        if measured && trial.load > 0 {
            let writes = self.plan.scenario.workload.about().writes();
            trial.operations = merged.stats(stream, merged.covered_s());
            for stat in &mut trial.operations {
                stat.write = writes.contains(&stat.operation.as_str());
            }
            if merged.has_gap() || merged.covered_s() < 0.95 * trial.measure_s {
                trial.remarks.push(format!(
                    "the load units told of {:.1} of {:.1} s of this measurement: figures of the load are of that time",
                    merged.covered_s(),
                    trial.measure_s
                ));
            }
        }
        let mut histograms: Vec<HistogramRecord> = self.records(trial, stream, merged.histograms());
        trial.operations.extend(probes.operations.iter().cloned());
        for probe in &self.plan.scenario.probes {
            let own: Vec<_> = probes
                .histograms
                .iter()
                .filter(|h| probe.operations().contains(&h.operation.as_str()))
                .cloned()
                .collect();
            histograms.extend(self.records(trial, probe.name(), own));
        }
        trial.health = self.health(if measured { &merged } else { &whole }, &samples);
        let mut incidents = std::mem::take(&mut self.intake.incidents);
        // A probe that got no answer is a stall only where nothing else explains it; a cut run explains it.
        if !self.intake.is_cancelled() {
            incidents.extend(probes.incidents);
        }
        trial.incidents = fold(incidents);
        self.remark(trial);
        (histograms, samples)
    }

    /// Counts of when the load was in place, before the probe made znodes and a session of its own.
    fn put_census(&mut self, trial: &mut Trial) {
        for (node, counts) in std::mem::take(&mut self.counts.by_node) {
            let series = trial.nodes.entry(node).or_default();
            for (what, count) in counts {
                series.extend(SeriesStat::of(&[count as f64]).map(|stat| (what, stat)));
            }
        }
    }

    fn records(&self, trial: &Trial, stream: &str, named: Vec<NamedHistogram>) -> Vec<HistogramRecord> {
        named
            .into_iter()
            .map(|h| HistogramRecord {
                arm: trial.arm,
                step: trial.step,
                trial: trial.trial,
                unit: 0,
                node: h.node,
                stream: stream.to_owned(),
                operation: h.operation,
                outcome: h.outcome,
                clock: h.clock,
                count: h.count,
                v2_deflate: h.v2_deflate,
            })
            .collect()
    }

    fn health(&self, merged: &Merged, samples: &[Sample]) -> Health {
        let own = |metric: &str| -> Vec<f64> {
            samples.iter().filter(|s| s.node == GENERATOR && s.metric == metric).map(|s| s.value).collect()
        };
        let (open_files, limit) = crate::sample::open_files().unwrap_or_default();
        Health {
            start_lag_p99_us: merged.start_lag_p99_us(),
            missed: merged.missed,
            cpu_share: SeriesStat::of(&own("generator_cpu_share")).map(|stat| stat.mean),
            steal_share: SeriesStat::of(&own("generator_steal_share")).map(|stat| stat.mean),
            cores: std::thread::available_parallelism()
                .map_or(0, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
            busiest_thread_share: merged.thread_share(),
            open_files,
            open_files_limit: limit.unwrap_or(0),
            clock_jump_ms: (self.intake.clock.wall_offset_ns() - self.wall_offset_ns) as f64 / 1e6,
        }
    }

    /// What a reader needs to know beside the figures.
    fn remark(&self, trial: &mut Trial) {
        if trial.measure_s <= 0.0 {
            trial.remarks.push("not measured: readings are of the time in which the load was put in place".to_owned());
        }
        if trial.load == 0 || trial.measure_s <= 0.0 {
            return;
        }
        let known: Vec<f64> =
            trial.target_nodes().filter_map(|(_, series)| series.get(SNAPSHOTS).and_then(|stat| stat.rose)).collect();
        let quiet = known.iter().filter(|rose| **rose < 0.5).count();
        if quiet > 0 {
            let whose =
                if quiet == known.len() { String::new() } else { format!(" of {quiet} of {} servers", known.len()) };
            trial.remarks.push(format!(
                "no snapshot{whose} fell into this measurement: it shows less than one cycle of the target's periodic work"
            ));
        }
        let short: Vec<&OperationStat> =
            trial.operations.iter().filter(|stat| !stat.probe && stat.asked.is_some()).collect();
        let asked: u64 = short.iter().filter_map(|stat| stat.asked).sum();
        let done: u64 = short.iter().map(|stat| stat.done).sum();
        if asked > 0 && (done as f64) < 0.9 * asked as f64 {
            trial.remarks.push(format!(
                "the load's own traffic fell short: {done} of {asked} operations that were due ended well"
            ));
        }
    }
}

/// How long before the measurement a rate may have begun, and how long after it a slow source may answer.
const EDGE_BEFORE_NS: i64 = 1_500_000_000;
const EDGE_AFTER_NS: i64 = 2_000_000_000;

/// The readings of a time. A rate is of the time since the reading before it, so it belongs only where that lies inside
/// too; a source that is asked seldom is asked at both edges of a measurement, and answers a moment after the end.
fn within(samples: &[Sample], from_ns: i64, until_ns: i64) -> Vec<Sample> {
    let mut before: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut kept = Vec::new();
    for sample in samples {
        let previous = before.insert((&sample.node, &sample.metric), sample.at_ns);
        let is_rate = metric::find(&sample.metric).is_some_and(|metric| metric.kind == metric::Kind::Rate);
        let inside = if is_rate {
            previous.is_some_and(|previous| {
                let seldom = sample.at_ns - previous > EDGE_AFTER_NS;
                let end_ns = if seldom { until_ns + EDGE_AFTER_NS } else { until_ns };
                previous >= from_ns - EDGE_BEFORE_NS && (from_ns..=end_ns).contains(&sample.at_ns)
            })
        } else {
            (from_ns..=until_ns).contains(&sample.at_ns)
        };
        if inside {
            kept.push(sample.clone());
        }
    }
    kept
}

/// Counted since the run began, so that a measurement has what it rose by.
const SNAPSHOTS: &str = "snapshots";
/// Of these the mean hides what matters: a queue that is empty most of the time and long at times.
const SPREAD: &[&str] = &["outstanding_requests"];
/// The readings of a counter must be this share of the measurement apart, to say something of it.
const COVERED: f64 = 0.75;

/// Puts down how many snapshots fell into the measurement. A counter is read seldom: its readings nearest to both ends
/// count, which may lie a little outside.
fn put_rises(nodes: &mut Summaries, samples: &[Sample], from_ns: i64, until_ns: i64) {
    for (node, series) in nodes {
        let Some(stat) = series.get_mut(SNAPSHOTS) else { continue };
        let own = || samples.iter().filter(|sample| sample.node == *node && sample.metric == SNAPSHOTS);
        let nearest = |to_ns: i64| own().min_by_key(|sample| sample.at_ns.abs_diff(to_ns));
        stat.rose = nearest(from_ns)
            .zip(nearest(until_ns))
            .filter(|(first, last)| (last.at_ns - first.at_ns) as f64 >= COVERED * (until_ns - from_ns) as f64)
            .map(|(first, last)| last.value - first.value);
    }
}

/// node -> metric -> summary.
type Summaries = BTreeMap<String, BTreeMap<String, SeriesStat>>;

fn summaries(samples: &[Sample]) -> Summaries {
    let mut values: BTreeMap<&str, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for sample in samples {
        values.entry(&sample.node).or_default().entry(&sample.metric).or_default().push(sample.value);
    }
    values
        .into_iter()
        .map(|(node, metrics)| {
            let stats = metrics.into_iter().filter_map(|(metric, v)| Some((metric.to_owned(), summary(metric, &v)?)));
            (node.to_owned(), stats.collect())
        })
        .collect()
}

fn summary(metric: &str, values: &[f64]) -> Option<SeriesStat> {
    let stat = SeriesStat::of(values)?;
    let distribution = SPREAD.contains(&metric).then(|| Distribution::of(values)).flatten();
    Some(SeriesStat { distribution, ..stat })
}

/// Adds up what units told second by second: forty closed connections are one incident.
fn fold(incidents: Vec<Incident>) -> Vec<Incident> {
    let mut folded: Vec<Incident> = Vec::new();
    for incident in incidents {
        let counted = match incident.kind {
            IncidentKind::ConnectionClosed => {
                Some("connections of the load were closed by the target and attached again")
            }
            IncidentKind::SessionExpired => {
                Some("sessions of the load expired: their ephemeral znodes and watches are gone")
            }
            IncidentKind::Stall
            | IncidentKind::Paused
            | IncidentKind::Died
            | IncidentKind::Restarted
            | IncidentKind::Election
            | IncidentKind::RoleChanged
            | IncidentKind::NotOneLeader
            | IncidentKind::NotServing
            | IncidentKind::CannotApply
            | IncidentKind::FillTimedOut
            | IncidentKind::LimitReached => None,
        };
        let same = folded.iter_mut().find(|old| old.kind == incident.kind && old.node == incident.node);
        match (counted, same) {
            (Some(words), Some(old)) => {
                old.amount += incident.amount;
                old.text = format!("{:.0} {words}", old.amount);
            }
            _ => folded.push(incident),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, metric: &str, value: f64) -> Sample {
        Sample { at_ns: clock::seconds_ns(at_s), node: "a".into(), metric: metric.into(), value }
    }

    fn values(samples: &[Sample], metric: &str) -> Vec<f64> {
        let kept = within(samples, clock::seconds_ns(100.0), clock::seconds_ns(110.0));
        kept.iter().filter(|sample| sample.metric == metric).map(|sample| sample.value).collect()
    }

    #[test]
    fn a_rate_that_began_before_the_measurement_does_not_belong_to_it() {
        let seldom = "net_in_bytes_per_s";
        let storm_then_edges = [sample(90.0, seldom, 1.0), sample(99.2, seldom, 900.0), sample(110.6, seldom, 5.0)];
        assert_eq!(values(&storm_then_edges, seldom), [5.0], "only what lies between the edges");
        assert!(values(&[sample(90.0, seldom, 1.0), sample(101.0, seldom, 900.0)], seldom).is_empty());
        let often = "transactions_per_s";
        let each_second: Vec<Sample> =
            (98..113).map(|second| sample(f64::from(second), often, f64::from(second))).collect();
        assert_eq!(values(&each_second, often).len(), 11);
    }

    fn rose(readings: &[(f64, f64)]) -> Option<f64> {
        let samples: Vec<Sample> = readings.iter().map(|(at_s, value)| sample(*at_s, SNAPSHOTS, *value)).collect();
        let (from_ns, until_ns) = (clock::seconds_ns(100.0), clock::seconds_ns(110.0));
        let mut nodes = summaries(&within(&samples, from_ns, until_ns));
        put_rises(&mut nodes, &samples, from_ns, until_ns);
        nodes.get("a")?.get(SNAPSHOTS)?.rose
    }

    #[test]
    fn snapshots_of_a_measurement_are_those_between_the_readings_nearest_to_its_ends() {
        // Files, every 2 s: one that came between the last reading before it and the first within it counts.
        assert_eq!(
            rose(&[(97.5, 3.0), (99.5, 3.0), (101.5, 4.0), (103.5, 4.0), (109.5, 6.0), (111.5, 7.0)]),
            Some(3.0)
        );
        // The server's own count, asked at both ends and answered a moment later.
        assert_eq!(rose(&[(90.0, 1.0), (100.1, 2.0), (110.1, 4.0)]), Some(2.0));
        assert_eq!(rose(&[(100.1, 2.0), (105.0, 2.0), (110.1, 2.0)]), Some(0.0), "none is a true zero");
        assert_eq!(rose(&[(104.0, 2.0)]), None, "one reading says nothing of how many came");
        assert_eq!(rose(&[(104.0, 2.0), (108.0, 2.0)]), None, "nor do two of a short part");
        assert_eq!(rose(&[(80.0, 1.0), (120.0, 2.0)]), None, "nothing was read within it");
    }

    #[test]
    fn only_of_outstanding_requests_the_spread_is_kept() {
        let read = |metric: &str| summary(metric, &[0.0, 0.0, 300.0]).unwrap();
        let above = read("outstanding_requests").distribution.unwrap().above;
        assert_eq!(above.iter().map(|above| above.readings).collect::<Vec<_>>(), [1, 1, 1, 0]);
        assert_eq!(read("znodes").distribution, None);
    }

    #[test]
    fn a_level_belongs_to_the_time_at_which_it_was_read() {
        let level = "znodes";
        assert_eq!(
            values(&[sample(99.9, level, 1.0), sample(100.0, level, 2.0), sample(110.1, level, 3.0)], level),
            [2.0]
        );
    }
}
