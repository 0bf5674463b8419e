//! How loads are chosen: `levels`, `ramp` and `search` of `[load]`, checked.

use super::file::{Kind, Load};
use crate::{
    analysis::{
        Ladder,
        search::{Growth, Search},
    },
    model::Fault,
};

/// The longest ladder that is accepted.
const RUNGS_MAX: usize = 1_000;
/// What a search does unless the scenario says otherwise.
const FACTOR: f64 = 2.0;
const WIDTH: f64 = 0.05;
const TRIALS_MAX: u32 = 60;

/// Reads how loads are chosen.
///
/// # Errors
/// Every fault.
pub(super) fn read(load: &Load) -> Result<Ladder, Vec<Fault>> {
    let mut checks = Checks::default();
    let ladder = match load.kind {
        Kind::Levels => checks.levels(load),
        Kind::Ramp => checks.ramp(load),
        Kind::Search => checks.search(load),
    };
    if checks.0.is_empty() && ladder.as_ref().is_some_and(|ladder| ladder.loads().len() > RUNGS_MAX) {
        checks.fault("load.levels", format!("has more than {RUNGS_MAX} loads"));
    }
    ladder.filter(|_| checks.0.is_empty()).ok_or(checks.0)
}

/// Collects every fault instead of ending at the first.
#[derive(Default)]
struct Checks(Vec<Fault>);

impl Checks {
    fn fault(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(Fault::new(field, message));
    }

    /// Keys that stand in the file and belong to another kind.
    fn refuse(&mut self, load: &Load, kind: &str, own: &[&str]) {
        let all = [
            ("levels", load.levels.is_some()),
            ("start", load.start.is_some()),
            ("step", load.step.is_some()),
            ("max", load.max.is_some()),
            ("min", load.min.is_some()),
            ("factor", load.factor.is_some()),
            ("width", load.width.is_some()),
            ("resolution", load.resolution.is_some()),
            ("trials_max", load.trials_max.is_some()),
        ];
        for (key, _) in all.into_iter().filter(|(key, present)| *present && !own.contains(key)) {
            self.fault(&format!("load.{key}"), format!("does not belong to `kind = \"{kind}\"`"));
        }
    }

    /// A load that the kind needs.
    fn needed(&mut self, field: &str, value: Option<u64>, kind: &str, all: &str) -> Option<u64> {
        match value {
            None => self.fault(field, format!("is missing; `kind = \"{kind}\"` needs {all}")),
            Some(0) => self.fault(field, "is 0; allowed: 1 or more"),
            Some(_) => {}
        }
        value
    }

    fn levels(&mut self, load: &Load) -> Option<Ladder> {
        self.refuse(load, "levels", &["levels"]);
        let levels = load.levels.clone().unwrap_or_default();
        if levels.is_empty() {
            self.fault(
                "load.levels",
                "is missing or empty; `kind = \"levels\"` needs a list of loads, such as [10, 20]",
            );
        }
        if levels.contains(&0) {
            self.fault("load.levels", "holds 0; the empty target is always measured first, as step 0");
        }
        if levels.windows(2).any(|pair| pair[0] == pair[1]) {
            self.fault("load.levels", "holds the same load twice in a row");
        }
        Some(Ladder::Levels(levels))
    }

    fn ramp(&mut self, load: &Load) -> Option<Ladder> {
        const ALL: &str = "start, step and max";
        self.refuse(load, "ramp", &["start", "step", "max"]);
        let start = self.needed("load.start", load.start, "ramp", ALL);
        let step = self.needed("load.step", load.step, "ramp", ALL);
        let max = self.needed("load.max", load.max, "ramp", ALL);
        let (start, step, max) = (start?, step?, max?);
        self.ordered("load.start", start, max);
        if step > 0 && max.saturating_sub(start) / step >= RUNGS_MAX as u64 {
            self.fault(
                "load.step",
                format!("makes more than {RUNGS_MAX} steps from {start} to {max}; allowed: a larger step"),
            );
        }
        Some(Ladder::Ramp { start, step, max })
    }

    fn ordered(&mut self, field: &str, low: u64, max: u64) {
        if low > max {
            self.fault(field, format!("is {low}, above load.max = {max}; allowed: 1 to {max}"));
        }
    }

    fn search(&mut self, load: &Load) -> Option<Ladder> {
        const ALL: &str = "start and max";
        self.refuse(load, "search", &["start", "max", "min", "step", "factor", "width", "resolution", "trials_max"]);
        let start = self.needed("load.start", load.start, "search", ALL);
        let max = self.needed("load.max", load.max, "search", ALL);
        let resolution = load.resolution.unwrap_or(1);
        let min = load.min.unwrap_or(resolution.max(1));
        let (width, trials_max) = (load.width.unwrap_or(WIDTH), load.trials_max.unwrap_or(TRIALS_MAX));
        let (start, max) = (start?, max?);
        self.ordered("load.start", start, max);
        if min == 0 || min > start {
            self.fault("load.min", format!("is {min}; allowed: 1 to load.start = {start}"));
        }
        if resolution == 0 || resolution > max {
            self.fault("load.resolution", format!("is {resolution}; allowed: 1 to load.max = {max}"));
        }
        if !(0.001..=0.5).contains(&width) {
            self.fault("load.width", format!("is {width}; allowed: 0.001 to 0.5"));
        } else if load.width.is_some() && width * (max as f64) < resolution as f64 {
            let finest = resolution as f64 / max as f64;
            self.fault(
                "load.width",
                format!(
                    "is {width}, finer than load.resolution = {resolution} at any load; allowed: {finest:.4} or more"
                ),
            );
        }
        if !(5..=1_000).contains(&trials_max) {
            self.fault("load.trials_max", format!("is {trials_max}; allowed: 5 to 1000"));
        }
        let growth = match (load.factor, load.step) {
            (Some(_), Some(_)) => {
                self.fault("load.step", "stands beside `factor`; allowed: one of them");
                Growth::Factor(FACTOR)
            }
            (None, Some(step)) => {
                if step == 0 {
                    self.fault("load.step", "is 0; allowed: 1 or more");
                }
                Growth::Step(step)
            }
            (factor, None) => {
                let factor = factor.unwrap_or(FACTOR);
                if !(1.1..=10.0).contains(&factor) {
                    self.fault("load.factor", format!("is {factor}; allowed: 1.1 to 10"));
                }
                Growth::Factor(factor)
            }
        };
        let search = Search { start, min, max, growth, width, resolution, trials_max, relaunch: false };
        self.0.is_empty().then_some(Ladder::Search(search))
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        analysis::{
            Ladder,
            search::{Growth, Search},
        },
        scenario::Scenario,
    };

    fn parse(load: &str) -> Result<Ladder, String> {
        let text = format!(
            "name = \"a\"\n[target]\nkind = \"zookeeper\"\nlaunch = \"local\"\n[load]\nworkload = \"zookeeper.domains\"\n{load}\n"
        );
        Scenario::parse(&text).map(|scenario| scenario.ladder).map_err(|faults| faults.to_string())
    }

    const SEARCH: &str = "kind = \"search\"\nstart = 10\nmax = 500\n";

    #[test]
    fn a_search_needs_a_start_and_a_maximum_and_no_more() {
        let expected = Search {
            start: 10,
            min: 1,
            max: 500,
            growth: Growth::Factor(2.0),
            width: 0.05,
            resolution: 1,
            trials_max: 60,
            relaunch: true,
        };
        assert_eq!(parse(SEARCH).unwrap(), Ladder::Search(expected));
        let all = format!("{SEARCH}min = 5\nstep = 20\nwidth = 0.1\nresolution = 5\ntrials_max = 30");
        let expected = Search {
            start: 10,
            min: 5,
            max: 500,
            growth: Growth::Step(20),
            width: 0.1,
            resolution: 5,
            trials_max: 30,
            relaunch: true,
        };
        assert_eq!(parse(&all).unwrap(), Ladder::Search(expected));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        for (more, said) in [
            ("levels = [1]", "load.levels: does not belong to `kind = \"search\"`"),
            ("min = 11", "load.min: is 11; allowed: 1 to load.start = 10"),
            ("resolution = 501", "load.resolution: is 501; allowed: 1 to load.max = 500"),
            ("width = 0.6", "load.width: is 0.6; allowed: 0.001 to 0.5"),
            (
                "resolution = 10\nwidth = 0.01",
                "is 0.01, finer than load.resolution = 10 at any load; allowed: 0.0200 or more",
            ),
            ("factor = 1.0", "load.factor: is 1; allowed: 1.1 to 10"),
            ("factor = 2.0\nstep = 5", "load.step: stands beside `factor`"),
            ("trials_max = 4", "load.trials_max: is 4; allowed: 5 to 1000"),
        ] {
            let error = parse(&format!("{SEARCH}{more}")).unwrap_err();
            assert!(error.contains(said), "{more}: {error}");
        }
        let above = SEARCH.replace("start = 10", "start = 501");
        assert!(parse(&above).unwrap_err().contains("load.start: is 501, above load.max = 500"));
        assert!(
            parse("kind = \"search\"")
                .unwrap_err()
                .contains("load.start: is missing; `kind = \"search\"` needs start and max")
        );
        assert!(
            parse("kind = \"ramp\"\nstart = 1\nstep = 1\nmax = 2\nwidth = 0.1")
                .unwrap_err()
                .contains("load.width: does not belong")
        );
        let action = format!("{SEARCH}[[action]]\ndo = \"kill\"\nnode = \"leader\"\nat = \"each\"");
        assert!(parse(&action).unwrap_err().contains("action: stands beside"), "{}", parse(&action).unwrap_err());
    }
}
