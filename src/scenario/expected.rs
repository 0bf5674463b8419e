//! What each load of a ladder comes to, as its workload says: columns that a report shows without knowing the workload.

use crate::{
    model::Expected,
    workload::{Demand, Workload},
};

/// The columns of a ladder: what the load consists of, what it adds to the target, what it asks of it.
pub(super) fn of(workload: &dyn Workload, ladder: &[u64]) -> Vec<Expected> {
    let mut columns: Vec<Expected> = Vec::new();
    for load in ladder {
        for (name, unit, value) in figures(&workload.demand(*load)) {
            match columns.iter_mut().find(|column| column.name == name) {
                Some(column) => column.values.push(value),
                None => columns.push(Expected { name: name.to_owned(), unit: unit.to_owned(), values: vec![value] }),
            }
        }
    }
    columns
}

fn figures(demand: &Demand) -> Vec<(&'static str, &'static str, f64)> {
    let counted = |name: &'static str, count: u64| (name, "", count as f64);
    let mut all: Vec<_> = demand.parts.iter().map(|(name, count)| counted(name, *count)).collect();
    all.push(counted("sessions", demand.sessions));
    let of_target = demand.counts.iter().filter(|(name, ..)| *name != "sessions");
    all.extend(of_target.map(|(name, count, _)| counted(name, *count)));
    all.push(("writes", "per_s", demand.writes_per_s));
    all.push(("reads", "per_s", demand.reads_per_s));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn each_load_has_what_its_workloads_options_make_of_it() {
        let options = toml::from_str("executors = 2\njobs = 10").unwrap();
        let workload = workload::workload("zookeeper.domains", "zookeeper", options).unwrap();
        let columns = of(workload.as_ref(), &[0, 200, 400]);
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["executors", "jobs", "sessions", "znodes", "watches", "ephemerals", "writes", "reads"]);
        assert_eq!(columns[0].values, [0.0, 400.0, 800.0]);
        assert_eq!(columns[1].values, [0.0, 2_000.0, 4_000.0]);
        assert_eq!(columns[2].values, [0.0, 1_000.0, 2_000.0]);
        let demand = workload.demand(400);
        assert_eq!(columns[3].values, [0, 200, 400].map(|load| workload.demand(load).counts[0].1 as f64));
        assert_eq!((columns[6].unit.as_str(), columns[6].values.last()), ("per_s", Some(&demand.writes_per_s)));
        assert!(columns.iter().all(|column| column.values.len() == 3));
    }
}
