//! Where load comes from: local addresses, so that neither a limit per address nor the sampler's own view is in the way.

use std::net::{IpAddr, Ipv4Addr};

use crate::{
    model::{Clock, Inventory, RunId},
    scenario::Plan,
    target::{Ahead, StepAhead, TargetSpec},
    workload::Site,
};

/// Sessions that one local address can open to one server: the ephemeral ports 32768 to 60999, less a reserve.
const PORTS_PER_ADDRESS: u64 = 27_000;
/// Addresses 127.0.1.1 to 127.0.1.250.
const LOOPBACK_SOURCES: u64 = 250;

/// Sites of the load and of probes, and what a reader should know of them.
pub(super) struct Sites {
    pub(super) load: Site,
    pub(super) probe: Site,
    pub(super) notes: Vec<String>,
}

pub(super) fn sites(
    plan: &Plan,
    spec: &TargetSpec,
    inventory: &Inventory,
    root: &str,
    clock: Clock,
    seed: u64,
) -> Sites {
    let top = plan.outline.ladder.iter().copied().max().unwrap_or(0);
    let demand = plan.scenario.workload.demand(top);
    let sessions = demand.sessions;
    // 0 is ZooKeeper's word for no limit.
    let limit = inventory.limit("maxClientCnxns").filter(|limit| *limit > 0);
    let per_address = limit.map_or(PORTS_PER_ADDRESS, |limit| limit.min(PORTS_PER_ADDRESS));
    let servers = spec.servers().len().max(1) as u64;
    let loopback = spec.servers().iter().all(|server| server.ip().is_loopback() && server.is_ipv4());
    let wanted = sessions.div_ceil(servers).div_ceil(per_address.saturating_sub(per_address / 20).max(1)).max(1);
    let mut notes: Vec<String> = timeout_note(demand.session_timeout_ms, inventory).into_iter().collect();
    let sources: Vec<IpAddr> = if !spec.source_addresses().is_empty() {
        spec.source_addresses().to_vec()
    } else if loopback {
        (1..=wanted.min(LOOPBACK_SOURCES))
            .filter_map(|n| u8::try_from(n).ok())
            .map(|n| IpAddr::V4(Ipv4Addr::new(127, 0, 1, n)))
            .collect()
    } else {
        Vec::new()
    };
    let addresses = sources.len().max(1) as u64;
    if addresses < wanted {
        let limit = limit.map_or_else(|| "local ports".to_owned(), |limit| format!("maxClientCnxns = {limit}"));
        notes.push(format!(
            "The highest load needs {sessions} sessions, but {addresses} source address(es) and {limit} allow about {}: expect `limit_reached`.",
            addresses * servers * per_address
        ));
    }
    let load = Site {
        target: spec.clone(),
        nodes: inventory.nodes.clone(),
        root: root.to_owned(),
        clock,
        unit: 0,
        seed,
        sources,
        connections_per_address: limit,
        max_request_bytes: inventory.limit("jute.maxbuffer"),
    };
    let probe_sources = if loopback { vec![IpAddr::V4(Ipv4Addr::new(127, 0, 3, 1))] } else { Vec::new() };
    let probe = Site { sources: probe_sources, ..load.clone() };
    Sites { load, probe, notes }
}

/// What the plan is going to ask of its target.
pub(super) fn ahead(plan: &Plan) -> Ahead {
    let step = |load: &u64| {
        let demand = plan.scenario.workload.demand(*load);
        let znodes = demand.counts.iter().find(|(what, ..)| *what == "znodes").map_or(0, |(_, count, _)| *count);
        StepAhead { znodes, writes_per_s: demand.writes_per_s }
    };
    let top = plan.outline.ladder.iter().copied().max().unwrap_or(0);
    Ahead {
        steps: plan.outline.ladder.iter().map(step).collect(),
        sessions: plan.scenario.workload.demand(top).sessions,
        // The data of an arm go before the next one begins.
        longest_s: plan.outline.longest_s as f64 / plan.arms.len().max(1) as f64,
    }
}

/// What leftovers of dead runs mean, in a sentence.
pub(super) fn of_leftovers(roots: &[String], target: &str) -> Option<String> {
    (!roots.is_empty()).then(|| {
        format!(
            "{} of runs that are gone lies on the target and is in all counts; `rampart clean {target}` removes it.",
            roots.join(", ")
        )
    })
}

/// What the target makes of the session timeout that is asked, where that differs.
fn timeout_note(asked_ms: u64, inventory: &Inventory) -> Option<String> {
    let bound_ms = |name: &str| -> Option<u64> {
        inventory.settings.iter().find(|setting| setting.name == name)?.value.parse().ok().filter(|ms| *ms > 0)
    };
    let (name, given_ms) = match (bound_ms("minSessionTimeout"), bound_ms("maxSessionTimeout")) {
        (_, Some(most_ms)) if asked_ms > most_ms => ("maxSessionTimeout", most_ms),
        (Some(least_ms), _) if asked_ms < least_ms => ("minSessionTimeout", least_ms),
        _ => return None,
    };
    Some(format!(
        "Sessions of the load ask for a timeout of {asked_ms} ms; the target gives them {given_ms} ms ({name})."
    ))
}

/// A seed of one arm: of values that are compared the same for all, of the same that is measured again another each time.
pub(super) fn seed_of_arm(run: RunId, plan: &Plan, arm: u32) -> u64 {
    let repeats = plan.scenario.sweep.as_ref().is_some_and(|sweep| sweep.setting.is_none());
    if repeats { seed(run) ^ u64::from(arm) << 40 } else { seed(run) }
}

/// A seed of the run's own, the same when the run is looked at again.
pub(super) fn seed(run: RunId) -> u64 {
    u64::from_str_radix(&run.short(), 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Setting;

    #[test]
    fn a_session_timeout_is_told_only_where_the_target_changes_it() {
        let setting =
            |name: &str, value: &str| Setting { name: name.into(), value: value.into(), source: "conf".into() };
        let settings = vec![setting("minSessionTimeout", "4000"), setting("maxSessionTimeout", "40000")];
        let inventory = Inventory { settings, ..Inventory::default() };
        let note = |asked_ms| timeout_note(asked_ms, &inventory);
        assert_eq!((note(4_000), note(20_000), note(40_000)), (None, None, None));
        assert!(note(40_001).is_some_and(|note| note.contains("gives them 40000 ms (maxSessionTimeout)")));
        assert!(note(3_999).is_some_and(|note| note.contains("gives them 4000 ms (minSessionTimeout)")));
        // -1 is ZooKeeper's word for its own default, which is not known here.
        let unset = Inventory { settings: vec![setting("maxSessionTimeout", "-1")], ..Inventory::default() };
        assert_eq!((timeout_note(1, &unset), timeout_note(1, &Inventory::default())), (None, None));
    }
}
