//! A trial with an action: the same load once more, with a server killed, stopped, paused or restarted, or after a command
//! of the configuration. It acts, waits until the target serves again, measures, and brings the servers back.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Floor, intake::Ended, step::Gathered};
use crate::{
    analysis::{Action, Choice},
    launch::{LaunchError, NodeAction},
    model::{ActionReport, Deed, IncidentKind, NodeInfo, Phase, RunEvent, Trial, Victim, clock, inventory::AWAY},
    scenario::actions::{REJOIN_MAX_S, order, order_back},
    workload::ProbeReport,
};

/// Between two looks at who leads and who follows.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long samplers may take to have seen all servers again.
const CATCH_UP_NS: i64 = 30_000_000_000;

/// An action under way.
pub(super) struct Doing {
    pub(super) action: Action,
    pub(super) report: ActionReport,
    /// The order that brings the servers back, once it is given.
    pub(super) back: Option<JoinHandle<Result<(), LaunchError>>>,
}

impl Doing {
    pub(super) fn nodes(&self) -> Vec<String> {
        self.report.victims.iter().map(|victim| victim.node.clone()).collect()
    }

    /// Whether its servers are told to come back while the load is watched or measured.
    fn comes_back_by_itself(&self) -> bool {
        self.action.deed == Deed::Restart || self.action.back_s.is_some()
    }

    fn fail(&mut self, why: impl Into<String>) {
        self.report.failed.get_or_insert_with(|| why.into());
    }
}

impl Floor {
    pub(super) async fn act(&mut self, index: usize, load: u64, step: u32, trial: u32) -> Gathered {
        self.intake.begin().await;
        let mut made = self.begun(load, step, trial);
        let action = self.plan.scenario.actions[index].clone();
        let mut doing = Doing { report: blank(index, &action), action, back: None };
        let mut probes = ProbeReport::default();
        // What an action before this one cost the load was put in place again.
        let mut ended = if self.load == load { Ended::Reached } else { self.fill(&mut made).await };
        if ended == Ended::Reached {
            self.intake.acting = true;
            ended = self.begin_action(&mut doing, &made).await;
        }
        if ended == Ended::Reached && doing.report.failed.is_none() {
            ended = self.recovery(&mut doing, &made).await;
        }
        if ended == Ended::Reached && doing.report.served_s.is_some() && doing.report.failed.is_none() {
            self.intake.acting = false;
            (ended, probes) = self.measure_without(&doing, &mut made).await;
        }
        self.intake.acting = true;
        made.action = Some(doing.report.clone());
        let mut gathered = self.end(made, probes, ended).await;
        count_sessions(&mut doing.report, &gathered.trial);
        self.lost |= doing.report.sessions_expired > 0;
        if gathered.ended.is_none() && doing.report.failed.is_none() {
            let rejoined = self.rejoin(&mut doing, &gathered.trial).await;
            if matches!(rejoined, Ended::Cancelled | Ended::TimeBudget | Ended::Guarded) {
                gathered.ended = Some(rejoined);
            }
        }
        if let Some(back) = doing.back.take() {
            back.abort();
            let _ = back.await;
        }
        self.intake.acting = false;
        doing.report.text = told(&doing.report);
        gathered.trial.remarks.push(doing.report.text.clone());
        gathered.trial.action = Some(doing.report);
        gathered
    }

    /// Does it. `Reached`: it was done, or it failed for a reason that the report has.
    async fn begin_action(&mut self, doing: &mut Doing, made: &Trial) -> Ended {
        self.phase(Phase::Acting, made, None).await;
        let Some(first) = order(doing.action.deed) else { return self.run_command(doing).await };
        let nodes = match self.roles().await {
            Ok(nodes) => nodes,
            Err(ended) => return ended,
        };
        match choose(&doing.action.node, &nodes) {
            Ok(victims) => doing.report.victims = victims,
            Err(why) => {
                doing.fail(why);
                return Ended::Reached;
            }
        }
        self.intake.away = doing.nodes();
        doing.report.at_ns = self.intake.clock.now_ns();
        let told = self.managed.order(doing.nodes(), first, Duration::ZERO);
        match self.intake.meanwhile(self.managed.as_deref(), told).await {
            Err(ended) => return ended,
            Ok(Some(Ok(()))) => {}
            Ok(Some(Err(error))) => doing.fail(error.to_string()),
            Ok(None) => doing.fail("the order broke off"),
        }
        if doing.comes_back_by_itself()
            && let Some(back) = order_back(doing.action.deed)
        {
            let after_ns = clock::seconds_ns(doing.action.back_s.unwrap_or(0.0));
            let left_ns = doing.report.at_ns + after_ns - self.intake.clock.now_ns();
            let after = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0));
            doing.back = Some(self.managed.order(doing.nodes(), back, after));
        }
        Ended::Reached
    }

    /// Runs the command; what follows is counted from its end.
    async fn run_command(&mut self, doing: &mut Doing) -> Ended {
        let name = doing.action.command.clone().unwrap_or_default();
        let Some(command) = self.plan.commands.get(&name).cloned() else {
            doing.fail(format!("the configuration names no command {name:?}"));
            return Ended::Reached;
        };
        let running = tokio::spawn(async move { command.run(&name).await });
        let ran = self.intake.meanwhile(self.managed.as_deref(), running).await;
        doing.report.at_ns = self.intake.clock.now_ns();
        match ran {
            Err(ended) => return ended,
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => doing.fail(error.to_string()),
            Ok(None) => doing.fail("the command broke off"),
        }
        Ended::Reached
    }

    /// Settles and measures with the servers away, unless they have come back meanwhile.
    async fn measure_without(&mut self, doing: &Doing, made: &mut Trial) -> (Ended, ProbeReport) {
        match self.roles().await {
            Ok(nodes) => self.probe_site.nodes = nodes,
            Err(ended) => return (ended, ProbeReport::default()),
        }
        let away = doing.nodes();
        for node in self.probe_site.nodes.iter_mut().filter(|node| away.contains(&node.name) && node.role == "unknown")
        {
            AWAY.clone_into(&mut node.role);
        }
        // Whoever is away gives no further readings, and would never be steady.
        self.intake.samples.retain(|sample| !away.contains(&sample.node));
        let ended = self.settle(made).await;
        if ended == Ended::Reached { self.hold(made).await } else { (ended, ProbeReport::default()) }
    }

    /// Brings the servers back and waits until all serve as one ensemble and every sampler has seen it, so that nothing of
    /// it falls into the next trial.
    async fn rejoin(&mut self, doing: &mut Doing, made: &Trial) -> Ended {
        let clock = self.intake.clock;
        let limit_ns = clock.now_ns() + clock::seconds_ns(REJOIN_MAX_S);
        self.phase(Phase::Rejoining, made, Some(limit_ns)).await;
        let back = match (doing.back.take(), order_back(doing.action.deed)) {
            (Some(back), _) => Some(back),
            (None, Some(back)) if doing.report.back_s.is_none() => {
                Some(self.managed.order(doing.nodes(), back, Duration::ZERO))
            }
            (None, _) => None,
        };
        if let Some(back) = back {
            match self.intake.meanwhile(self.managed.as_deref(), back).await {
                Err(ended) => return ended,
                Ok(done) => self.note_back(doing, done).await,
            }
        }
        if doing.report.failed.is_some() {
            return Ended::Reached;
        }
        self.intake.away.clear();
        loop {
            match self.roles().await {
                Err(ended) => return ended,
                Ok(nodes) if is_whole(&nodes) => {
                    self.probe_site.nodes = nodes;
                    break;
                }
                Ok(_) if clock.now_ns() >= limit_ns => return Ended::Deadline,
                Ok(_) => {}
            }
            let look_ns = clock.now_ns() + clock::nanos(LOOK_EVERY);
            let ended = self.intake.until(look_ns, self.managed.as_deref(), |_| false).await;
            if ended != Ended::Deadline {
                return ended;
            }
        }
        let rejoined_ns = clock.now_ns();
        doing.report.rejoined_s = Some((rejoined_ns - doing.report.at_ns) as f64 / 1e9);
        let names: Vec<String> = self.probe_site.nodes.iter().map(|node| node.name.clone()).collect();
        self.intake.edge();
        let caught_up = |intake: &super::intake::Intake| {
            intake.edge_answered()
                && names.iter().all(|name| intake.answered.get(name).is_some_and(|at_ns| *at_ns > rejoined_ns))
        };
        self.intake.until(rejoined_ns + CATCH_UP_NS, self.managed.as_deref(), caught_up).await
    }

    /// The servers were told to come back.
    pub(super) async fn note_back(&mut self, doing: &mut Doing, done: Option<Result<(), LaunchError>>) {
        match done {
            Some(Ok(())) => {}
            Some(Err(error)) => return doing.fail(error.to_string()),
            None => return doing.fail("the order to come back broke off"),
        }
        let now_ns = self.intake.clock.now_ns();
        doing.report.back_s = Some((now_ns - doing.report.at_ns) as f64 / 1e9);
        self.intake.away.clear();
        if order_back(doing.action.deed) != Some(NodeAction::Start) {
            return;
        }
        // A crash has to find the new processes as well.
        let Some(managed) = self.managed.as_deref() else { return };
        let dir = managed.dir().display().to_string();
        let states = managed.process_states();
        for state in states.into_iter().filter(|state| doing.report.hit(&state.node)) {
            let event = RunEvent::Launched {
                at_ns: now_ns,
                node: state.node,
                pid: state.pid,
                process_started_s: state.started_s,
                dir: dir.clone(),
            };
            self.intake.tell(event).await;
        }
    }

    /// The servers with their roles as they are now; `unknown` for one that does not answer.
    async fn roles(&mut self) -> Result<Vec<NodeInfo>, Ended> {
        let target = std::sync::Arc::clone(&self.target);
        let asked = tokio::spawn(async move { target.inventory().await });
        let looked = self.intake.meanwhile(self.managed.as_deref(), asked).await?;
        Ok(looked.and_then(Result::ok).map(|inventory| inventory.nodes).unwrap_or_default())
    }

    /// Takes the whole load off, where an action cost it sessions: what comes next is to be the load that was asked.
    pub(super) async fn replace_what_was_lost(&mut self) {
        if !std::mem::take(&mut self.lost) {
            return;
        }
        let mut empty = self.begun(0, 0, 0);
        // What ends this ends what follows as well.
        let _ = self.fill(&mut empty).await;
    }
}

fn blank(index: usize, action: &Action) -> ActionReport {
    ActionReport {
        action: u32::try_from(index).unwrap_or(u32::MAX),
        deed: action.deed,
        victims: Vec::new(),
        command: action.command.clone(),
        required: action.required,
        at_ns: 0,
        served_s: None,
        served_within_s: super::canary::WATCH_EVERY.as_secs_f64(),
        recovery_s: None,
        recovery_within_s: 1.0,
        sessions_moved: 0,
        sessions_expired: 0,
        back_s: None,
        rejoined_s: None,
        failed: None,
        text: String::new(),
    }
}

/// The servers that an action is done to, no one twice.
fn choose(choices: &[Choice], nodes: &[NodeInfo]) -> Result<Vec<Victim>, String> {
    let mut victims: Vec<Victim> = Vec::new();
    // Those that are named go first: a follower is then another one.
    let mut ordered: Vec<&Choice> = choices.iter().collect();
    ordered.sort_by_key(|choice| **choice == Choice::Follower);
    for choice in ordered {
        let free = |node: &&NodeInfo| victims.iter().all(|victim| victim.node != node.name);
        let leads = |node: &&NodeInfo| matches!(node.role.as_str(), "leader" | "standalone");
        let found = match choice {
            Choice::Leader => nodes.iter().filter(free).find(leads),
            Choice::Follower => nodes.iter().filter(free).find(|node| node.role == "follower"),
            Choice::Number(number) => {
                usize::try_from(*number).ok().and_then(|n| nodes.get(n.checked_sub(1)?)).filter(free)
            }
            Choice::Name(name) => nodes.iter().filter(free).find(|node| node.name == *name),
        };
        match found {
            Some(node) => victims.push(Victim { node: node.name.clone(), role: node.role.clone() }),
            None => {
                let there: Vec<String> = nodes.iter().map(|node| format!("{} ({})", node.name, node.role)).collect();
                let wanted = match choice {
                    Choice::Leader => "leader".to_owned(),
                    Choice::Follower => "further follower".to_owned(),
                    Choice::Number(number) => format!("further server {number}"),
                    Choice::Name(name) => format!("further server {name}"),
                };
                return Err(format!("the target has no {wanted}; there are {}", there.join(", ")));
            }
        }
    }
    Ok(victims)
}

/// Whether all servers serve, several of them as one ensemble.
fn is_whole(nodes: &[NodeInfo]) -> bool {
    let count = |roles: &[&str]| nodes.iter().filter(|node| roles.contains(&node.role.as_str())).count();
    !nodes.is_empty() && count(&["leader", "standalone"]) == 1 && count(&["follower", "observer"]) == nodes.len() - 1
}

/// What the trial's incidents say of the load's sessions.
fn count_sessions(report: &mut ActionReport, trial: &Trial) {
    let amount = |kind| {
        let of_load = trial.incidents.iter().filter(|incident| incident.kind == kind && incident.node.is_empty());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of sessions")]
        let amount = of_load.map(|incident| incident.amount).sum::<f64>() as u64;
        amount
    };
    report.sessions_moved = amount(IncidentKind::ConnectionClosed);
    report.sessions_expired = amount(IncidentKind::SessionExpired);
}

/// All of a report in one sentence.
fn told(report: &ActionReport) -> String {
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    let whom = match report.victims.as_slice() {
        [] => format!("ran the command {:?}", report.command.as_deref().unwrap_or_default()),
        victims => {
            let each: Vec<String> = victims.iter().map(|each| format!("{} ({})", each.node, each.role)).collect();
            format!("{} {}", report.deed.done(), each.join(" and "))
        }
    };
    let mut parts = vec![whom];
    match report.served_s {
        Some(served_s) => {
            let within = report.served_within_s;
            parts.push(format!("a write was answered again after {} (to within {within} s)", seconds(served_s)));
        }
        None => parts.push("no write was answered again".to_owned()),
    }
    parts.extend(report.recovery_s.map(|whole_s| {
        format!("the whole load was back after {} (to within {} s)", seconds(whole_s), report.recovery_within_s)
    }));
    let (moved, expired) = (report.sessions_moved, report.sessions_expired);
    parts.push(format!("{moved} sessions of the load were attached again, {expired} expired"));
    if !report.victims.is_empty() {
        parts.extend(report.back_s.map(|back_s| format!("brought back after {}", seconds(back_s))));
        match report.rejoined_s {
            Some(rejoined_s) => parts.push(format!("all servers served again after {}", seconds(rejoined_s))),
            None => parts.push("not every server served again".to_owned()),
        }
    }
    parts.extend(report.failed.clone());
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(roles: &[&str]) -> Vec<NodeInfo> {
        let node = |(n, role): (usize, &&str)| NodeInfo {
            name: format!("127.0.0.{}:2181", n + 1),
            role: (*role).to_owned(),
            ..NodeInfo::default()
        };
        roles.iter().enumerate().map(node).collect()
    }

    fn chosen(choices: &[Choice], roles: &[&str]) -> Result<Vec<String>, String> {
        choose(choices, &nodes(roles)).map(|victims| victims.into_iter().map(|victim| victim.node).collect())
    }

    #[test]
    fn servers_are_chosen_by_the_role_that_they_have_then() {
        let roles = ["follower", "leader", "follower"];
        assert_eq!(chosen(&[Choice::Leader], &roles).unwrap(), ["127.0.0.2:2181"]);
        assert_eq!(
            chosen(&[Choice::Follower, Choice::Number(1)], &roles).unwrap(),
            ["127.0.0.1:2181", "127.0.0.3:2181"]
        );
        assert_eq!(chosen(&[Choice::Name("127.0.0.3:2181".into())], &roles).unwrap(), ["127.0.0.3:2181"]);
        assert_eq!(chosen(&[Choice::Leader], &["standalone"]).unwrap(), ["127.0.0.1:2181"]);
        let error = chosen(&[Choice::Leader, Choice::Number(2)], &roles).unwrap_err();
        assert!(
            error.starts_with("the target has no further server 2; there are 127.0.0.1:2181 (follower)"),
            "{error}"
        );
        assert!(chosen(&[Choice::Leader], &["follower", "unknown"]).is_err());
        assert!(chosen(&[Choice::Number(4)], &roles).is_err());
    }

    #[test]
    fn a_target_is_whole_when_all_serve_and_one_leads() {
        assert!(is_whole(&nodes(&["standalone"])) && is_whole(&nodes(&["follower", "leader", "observer"])));
        for wrong in [&["follower"][..], &["leader", "leader"], &["leader", "unknown"], &[]] {
            assert!(!is_whole(&nodes(wrong)), "{wrong:?}");
        }
    }
}
