//! Whether the target answers and lives: silences, stalls, processes that ended or were stopped.

use super::intake::Intake;
use crate::{
    analysis::leadership::Said,
    launch::{Managed, ProcessKind},
    model::{Incident, IncidentKind},
    target::{Condition, NodeCondition},
};

/// A server that answers nothing for so long is a stall worth an incident.
const STALL_NS: i64 = 3_000_000_000;
/// A server that answers nothing for so long has given way: the trial ends.
const GIVE_UP_NS: i64 = 15_000_000_000;
/// Since when a node has not answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Silence {
    pub(super) since_ns: i64,
    pub(super) condition: Condition,
}

impl Intake {
    pub(super) fn take_condition(&mut self, seen: NodeCondition) {
        let NodeCondition { at_ns, node, condition, role, text } = seen;
        let said = match (condition, role) {
            (Condition::Serving, Some(role)) => Said::Role(role),
            (Condition::Serving | Condition::Empty | Condition::Refused, _) => Said::Unknown,
            (Condition::NotServing | Condition::Unreachable | Condition::TimedOut, _) => Said::Nothing,
        };
        self.incidents.extend(self.leadership.take(at_ns, &node, said));
        match condition {
            // The scenario itself took it away.
            Condition::NotServing | Condition::Unreachable | Condition::TimedOut if self.away.contains(&node) => {}
            Condition::Serving => self.spoke(&node, at_ns),
            // The sampler's own limit: says nothing about how the server serves others.
            Condition::Empty | Condition::Refused => {}
            Condition::NotServing | Condition::Unreachable | Condition::TimedOut => {
                if condition == Condition::NotServing && !self.silent.contains_key(&node) {
                    self.incidents.push(Incident {
                        at_ns,
                        kind: IncidentKind::NotServing,
                        node: node.clone(),
                        text: format!("{node}: {text}"),
                        amount: 1.0,
                    });
                }
                // It may have been silent since its last answer; that it was asked again tells when the silence was seen.
                let since_ns = self.answered.get(&node).copied().unwrap_or(at_ns);
                let silence = self.silent.entry(node).or_insert(Silence { since_ns, condition });
                silence.condition = condition;
            }
        }
    }

    /// A node answers again: a long silence before it is an incident.
    fn spoke(&mut self, node: &str, at_ns: i64) {
        self.answered.insert(node.to_owned(), at_ns);
        if let Some(silence) = self.silent.remove(node)
            && at_ns - silence.since_ns >= STALL_NS
        {
            self.stall(node, silence, at_ns);
        }
    }

    fn stall(&mut self, node: &str, silence: Silence, until_ns: i64) {
        let seconds = (until_ns - silence.since_ns) as f64 / 1e9;
        let how = match silence.condition {
            Condition::Unreachable => "could not be reached",
            Condition::NotServing => "did not serve",
            Condition::Serving | Condition::Empty | Condition::Refused | Condition::TimedOut => "answered nothing",
        };
        self.incidents.push(Incident {
            at_ns: until_ns,
            kind: IncidentKind::Stall,
            node: node.to_owned(),
            text: format!("{node} {how} for {seconds:.1} s"),
            amount: seconds * 1e3,
        });
    }

    /// Closes the books of a trial: silences that still last become incidents too.
    pub(super) fn settle_silences(&mut self) {
        let now_ns = self.clock.now_ns();
        let lasting: Vec<(String, Silence)> =
            self.silent.iter().filter(|(_, s)| now_ns - s.since_ns >= STALL_NS).map(|(n, s)| (n.clone(), *s)).collect();
        for (node, silence) in lasting {
            self.stall(&node, silence, now_ns);
        }
    }

    pub(super) fn gave_up(&self, now_ns: i64) -> bool {
        !self.acting && self.silent.values().any(|silence| now_ns - silence.since_ns >= GIVE_UP_NS)
    }

    /// Whether the target died, or has given way.
    pub(super) fn is_gone(&self) -> bool {
        self.died || self.gave_up(self.clock.now_ns())
    }

    pub(super) fn look_at_processes(&mut self, managed: Option<&dyn Managed>) {
        let Some(managed) = managed else { return };
        let at_ns = self.clock.now_ns();
        self.look_for_lost_threads(managed, at_ns);
        self.stopped = false;
        for process in managed.process_states() {
            let node = process.node;
            match process.kind {
                // Whoever ended it on purpose tells what it means.
                ProcessKind::Running | ProcessKind::EndedOnPurpose(_) => {}
                ProcessKind::Stopped if self.away.contains(&node) => {}
                ProcessKind::Stopped => {
                    self.stopped = true;
                    if !self.paused.contains(&node) {
                        self.paused.push(node.clone());
                        let text = format!("{node} was stopped by a signal (SIGSTOP) from outside");
                        self.incidents.push(Incident { at_ns, kind: IncidentKind::Paused, node, text, amount: 1.0 });
                    }
                }
                ProcessKind::Exited(status) => {
                    if !self.died {
                        self.died = true;
                        let memory =
                            managed.log_tail(&node, 200).into_iter().find(|line| line.contains("OutOfMemoryError"));
                        let text = match memory {
                            Some(line) => format!("{node} ended ({status}) after {}", line.trim()),
                            None => format!("{node} ended ({status})"),
                        };
                        self.incidents.push(Incident { at_ns, kind: IncidentKind::Died, node, text, amount: 1.0 });
                    }
                }
            }
        }
    }

    /// A JVM whose threads died for want of memory may live on without serving: its log says so, nothing else does.
    fn look_for_lost_threads(&mut self, managed: &dyn Managed, at_ns: i64) {
        if self.out_of_memory || self.silent.is_empty() {
            return;
        }
        for node in managed.nodes().iter().filter(|node| self.silent.contains_key(&node.name)) {
            if let Some(line) =
                managed.log_tail(&node.name, 200).into_iter().find(|line| line.contains("OutOfMemoryError"))
            {
                self.out_of_memory = true;
                let text = format!("{} wrote to its log: {}", node.name, line.trim());
                self.incidents.push(Incident {
                    at_ns,
                    kind: IncidentKind::Stall,
                    node: node.name.clone(),
                    text,
                    amount: 1.0,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{analysis::leadership::Rounds, model::Clock};

    #[tokio::test]
    async fn samples_without_exactly_one_leader_are_an_incident() {
        let (events, _kept) = mpsc::channel(1);
        let mut intake = Intake::new(Clock::start(), events, CancellationToken::new());
        let roles = [("a", "leader"), ("b", "follower")].map(|(node, role)| (node.to_owned(), role.to_owned()));
        intake.leadership = Rounds::new(roles.into());
        let mut say = |node: &str, condition, role: Option<&str>| {
            let (node, role) = (node.to_owned(), role.map(str::to_owned));
            intake.take_condition(NodeCondition { at_ns: 1, node, condition, role, text: String::new() });
            std::mem::take(&mut intake.incidents).into_iter().map(|incident| incident.kind).collect::<Vec<_>>()
        };
        assert_eq!(say("a", Condition::Serving, Some("leader")), []);
        assert_eq!(say("b", Condition::Serving, Some("follower")), []);
        assert_eq!(say("a", Condition::Empty, None), [], "a connection limit says nothing of its role");
        assert_eq!(say("b", Condition::Serving, Some("follower")), []);
        assert_eq!(say("a", Condition::TimedOut, None), []);
        assert_eq!(say("b", Condition::NotServing, None), [IncidentKind::NotOneLeader, IncidentKind::NotServing]);
        assert_eq!(say("b", Condition::Serving, Some("leader")), [IncidentKind::RoleChanged]);
    }
}
