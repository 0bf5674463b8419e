//! Rules on the load's own traffic: whether what fell due was done, whether what waits grows, whether more load still
//! brings more.

use super::{figure, rules::reading};
use crate::model::{OperationStat, Outcome, RuleReading, Sample, StopCode, Trial, metric::GENERATOR};

/// The series of operations under way.
const IN_FLIGHT: &str = "load_in_flight";
/// Readings of a series are cut into so many batches, whose means are nearly independent.
const BATCHES: usize = 6;
/// Kendall's S of so many batch means is reached by chance in 0.8 % of series without a trend (Kendall, Rank Correlation
/// Methods, table for n = 6).
const KENDALL_S: i32 = 11;
/// Loads nearer to each other than this cannot show whether more load brings more.
const APART: f64 = 1.1;

/// The load's own operations that have a schedule.
fn own(trial: &Trial) -> impl Iterator<Item = &OperationStat> {
    trial.operations.iter().filter(|stat| !stat.probe && stat.asked.is_some())
}

/// Operations of the load that ended well, a second.
fn done_per_s(trial: &Trial) -> Option<f64> {
    own(trial).map(|stat| stat.ops_per_s).reduce(|sum, rate| sum + rate)
}

/// By how much the number under way differs between two moments without any trend: three times the root of Little's mean.
fn chance(trial: &Trial) -> f64 {
    let under_way: f64 = own(trial).map(|stat| stat.ops_per_s * stat.latency.mean_us / 1e6).sum();
    5.0 + 3.0 * under_way.max(0.0).sqrt()
}

/// Too few of the operations that fell due ended well. What is only under way at the end is no shortfall.
pub(super) fn achieved_short(share: f64, trial: &Trial) -> RuleReading {
    let code = StopCode::AchievedShort;
    let subject = "the load";
    let asked: u64 = own(trial).filter_map(|stat| stat.asked).sum();
    if asked == 0 {
        let text = "nothing of the load fell due, so that nothing could fall short".to_owned();
        return reading(code, subject, None, share, "share", None, text);
    }
    let done: u64 = own(trial).map(|stat| stat.done).sum();
    let failed: u64 = own(trial).map(OperationStat::failed).sum();
    let achieved = done as f64 / asked as f64;
    let short = asked as f64 - done as f64;
    let broke = achieved < share && short > chance(trial);
    let text = format!(
        "{} of {} operations that fell due ended well ({} %), {} failed; the rule asks for {} %",
        figure(done as f64),
        figure(asked as f64),
        figure(achieved * 100.0),
        figure(failed as f64),
        figure(share * 100.0)
    );
    reading(code, subject, Some(achieved), share, "share", Some(broke), text)
}

/// What waits for an answer grows through the whole measurement: batch means that rise beyond chance, and by more than a
/// share of what fell due.
pub(super) fn backlog_growth(growth: f64, trial: &Trial, samples: &[Sample]) -> RuleReading {
    let code = StopCode::BacklogGrowth;
    let subject = "operations under way";
    let series: Vec<f64> =
        samples.iter().filter(|s| s.node == GENERATOR && s.metric == IN_FLIGHT).map(|s| s.value).collect();
    let asked: u64 = own(trial).filter_map(|stat| stat.asked).sum();
    if series.len() < 2 * BATCHES || asked == 0 {
        let text = format!("{} readings of operations under way are too few; {} are needed", series.len(), 2 * BATCHES);
        return reading(code, subject, None, growth, "share", None, text);
    }
    let means = batch_means(&series);
    let (first, last) = (means[0], means[BATCHES - 1]);
    // From the middle of the first batch to that of the last.
    let grown = (last - first) * BATCHES as f64 / (BATCHES - 1) as f64;
    let share = grown / asked as f64;
    let broke = kendall(&means) >= KENDALL_S && share > growth && grown > 5.0 + 3.0 * first.max(0.0).sqrt();
    let text = format!(
        "operations under way went from {} to {}, by {} % of what fell due; the rule allows {} %",
        figure(first),
        figure(last),
        figure(share * 100.0),
        figure(growth * 100.0)
    );
    reading(code, subject, Some(share), growth, "share", Some(broke), text)
}

fn batch_means(series: &[f64]) -> [f64; BATCHES] {
    std::array::from_fn(|batch| {
        let part = &series[series.len() * batch / BATCHES..series.len() * (batch + 1) / BATCHES];
        part.iter().sum::<f64>() / part.len().max(1) as f64
    })
}

/// Pairs that rise less pairs that fall.
fn kendall(means: &[f64]) -> i32 {
    let mut s = 0;
    for (at, early) in means.iter().enumerate() {
        s += means[at + 1..].iter().map(|late| i32::from(late > early) - i32::from(late < early)).sum::<i32>();
    }
    s
}

/// Measured loads below a limit that say something, and what was done there.
fn lower<'t>(history: &'t [Trial], trial: &Trial, limit: f64) -> impl Iterator<Item = (&'t Trial, f64)> {
    let arm = trial.arm;
    history
        .iter()
        .filter(move |old| old.arm == arm && old.load > 0 && (old.load as f64) <= limit && old.action.is_none())
        .filter(|old| matches!(old.outcome, Outcome::Held | Outcome::Broke))
        .filter_map(|old| Some((old, done_per_s(old)?)))
}

/// More load brought hardly more throughput than a lower one did.
pub(super) fn plateau(gain: f64, trial: &Trial, history: &[Trial]) -> RuleReading {
    let code = StopCode::Plateau;
    let subject = "the load";
    let Some(now) = done_per_s(trial) else { return nothing(code, gain) };
    let base = lower(history, trial, trial.load as f64 / APART).max_by_key(|(old, _)| old.load);
    let Some((old, before)) = base.filter(|(_, before)| *before > 0.0) else {
        let text = "there is no lower load to compare with".to_owned();
        return reading(code, subject, None, gain, "share", Some(false), text);
    };
    let more_load = trial.load as f64 / old.load as f64 - 1.0;
    let share = (now / before - 1.0) / more_load;
    let text = format!(
        "{} % more load than {} brought {} % more throughput ({} against {} per second); the rule asks for {} % of it",
        figure(more_load * 100.0),
        figure(old.load as f64),
        figure((now / before - 1.0) * 100.0),
        figure(now),
        figure(before),
        figure(gain * 100.0)
    );
    reading(code, subject, Some(share), gain, "share", Some(share < gain), text)
}

/// Throughput fell although the load rose.
pub(super) fn retrograde(below: f64, trial: &Trial, history: &[Trial]) -> RuleReading {
    let code = StopCode::Retrograde;
    let subject = "the load";
    let Some(now) = done_per_s(trial) else { return nothing(code, below) };
    let best = lower(history, trial, trial.load as f64 - 1.0).max_by(|left, right| left.1.total_cmp(&right.1));
    let Some((old, best)) = best else {
        let text = "there is no lower load to compare with".to_owned();
        return reading(code, subject, None, 0.0, "per_s", Some(false), text);
    };
    let text = format!(
        "{} per second were done, {} % of the {} per second at {}; the rule asks for {} %",
        figure(now),
        figure(now / best * 100.0),
        figure(best),
        figure(old.load as f64),
        figure(below * 100.0)
    );
    reading(code, subject, Some(now), best * below, "per_s", Some(now < best * below), text)
}

fn nothing(code: StopCode, limit: f64) -> RuleReading {
    reading(code, "the load", None, limit, "share", None, "nothing of the load fell due".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analysis::judge::tests::trial, model::Percentiles};

    fn loaded(load: u64, asked: u64, done: u64, mean_us: f64) -> Trial {
        let stat = OperationStat {
            stream: "sim.requests".into(),
            operation: "request".into(),
            asked: Some(asked),
            done,
            elapsed_s: 60.0,
            ops_per_s: done as f64 / 60.0,
            latency: Percentiles { mean_us, ..Percentiles::default() },
            ..OperationStat::default()
        };
        Trial { outcome: Outcome::Held, ..trial(1, load, vec![stat]) }
    }

    #[test]
    fn only_what_is_not_done_falls_short_and_not_what_is_under_way() {
        let broke = |asked, done, mean_us| achieved_short(0.995, &loaded(10, asked, done, mean_us)).broke;
        assert_eq!(broke(100_000, 99_600, 1_000.0), Some(false));
        assert_eq!(broke(100_000, 99_400, 1_000.0), Some(true));
        assert_eq!(broke(200, 197, 1_000.0), Some(false), "three under way of a short trial");
        assert_eq!(broke(6_000, 5_960, 2_000_000.0), Some(false), "200 under way as a mean, 40 more at the end");
        assert_eq!(broke(6_000, 4_000, 2_000_000.0), Some(true));
        assert_eq!(broke(0, 0, 0.0), None);
        assert_eq!(achieved_short(0.995, &trial(1, 10, vec![])).broke, None);
    }

    #[test]
    fn failures_fall_short_too() {
        let mut failing = loaded(10, 100_000, 99_000, 1_000.0);
        failing.operations[0].errors.insert("refused".into(), 1_000);
        assert_eq!(achieved_short(0.995, &failing).broke, Some(true));
    }

    fn series(values: impl Iterator<Item = f64>) -> Vec<Sample> {
        let sample = |(at, value): (i64, f64)| Sample {
            at_ns: at * 1_000_000_000,
            node: GENERATOR.into(),
            metric: IN_FLIGHT.into(),
            value,
        };
        (0..).zip(values).map(sample).collect()
    }

    #[test]
    fn a_backlog_that_grows_is_told_from_one_that_goes_up_and_down() {
        let trial = loaded(10, 600_000, 594_000, 1_000.0);
        let broke = |values: Vec<f64>| backlog_growth(0.002, &trial, &series(values.into_iter())).broke;
        assert_eq!(broke((0..60).map(|s| 100.0 * f64::from(s)).collect()), Some(true));
        assert_eq!(broke((0..60).map(|s| 400.0 + 300.0 * (f64::from(s) / 3.0).sin()).collect()), Some(false));
        assert_eq!(broke((0..60).map(|s| 10.0 + f64::from(s)).collect()), Some(false), "by 60 of 600,000");
        assert_eq!(broke((0..60).map(|s| if s > 50 { 5_000.0 } else { 10.0 }).collect()), Some(false), "one burst");
        assert_eq!(broke(vec![1.0; 5]), None);
    }

    #[test]
    fn a_plateau_and_a_fall_are_seen_against_lower_loads() {
        let history = [loaded(1_000, 60_000, 60_000, 1_000.0), loaded(2_000, 120_000, 119_000, 1_000.0)];
        let at = |load: u64, done: u64| loaded(load, load * 60, done, 1_000.0);
        assert_eq!(plateau(0.1, &at(4_000, 240_000), &history).broke, Some(false));
        assert_eq!(plateau(0.1, &at(4_000, 125_000), &history).broke, Some(true));
        assert_eq!(plateau(0.1, &at(1_000, 60_000), &[]).broke, Some(false));
        assert_eq!(retrograde(0.95, &at(4_000, 125_000), &history).broke, Some(false));
        assert_eq!(retrograde(0.95, &at(4_000, 100_000), &history).broke, Some(true));
        // A load just above is too near to say that it is a plateau, but may be a fall.
        assert_eq!(plateau(0.1, &at(2_010, 119_000), &history[1..]).broke, Some(false));
        assert_eq!(retrograde(0.95, &at(2_010, 90_000), &history).broke, Some(true));
    }
}
