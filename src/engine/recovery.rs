//! How long a target takes after an action: until a write is answered again, and until the whole load is back.

use std::net::SocketAddr;

use super::{
    Floor,
    act::Doing,
    canary::Canary,
    intake::{Ended, Intake, LoadWord},
};
use crate::{
    model::{Deed, Phase, Trial, clock},
    scenario::actions::RECOVERY_MAX_S,
};

/// Operations that are under way when a second ends: that many fewer may have ended than fell due.
const UNDER_WAY: u64 = 10;

impl Floor {
    /// Waits until the target serves again and the load is whole. `Reached` too when it does not in time; the report says
    /// how far it came.
    pub(super) async fn recovery(&mut self, doing: &mut Doing, made: &Trial) -> Ended {
        let limit_ns = doing.report.at_ns
            + clock::seconds_ns(RECOVERY_MAX_S)
            + clock::seconds_ns(doing.action.back_s.unwrap_or(0.0));
        self.phase(Phase::Acting, made, Some(limit_ns)).await;
        let Some(spec) = self.probe_site.target.zookeeper().cloned() else {
            doing.report.failed = Some("this kind of target has no server to act on".to_owned());
            return Ended::Reached;
        };
        let servers = watched(&spec.servers, doing);
        let canary = match Canary::writing(self.intake.clock, &spec, servers, &self.probe_site.root) {
            Ok(canary) => canary,
            Err(error) => {
                doing.report.failed = Some(format!("no thread to see when the target serves again: {error}"));
                return Ended::Reached;
            }
        };
        let all: Vec<String> = spec.servers.iter().map(ToString::to_string).collect();
        loop {
            let at_ns = doing.report.at_ns;
            let back_done = |doing: &Doing| doing.back.as_ref().is_some_and(tokio::task::JoinHandle::is_finished);
            let whole_at = |intake: &Intake| {
                let served_ns = canary.first_answer_ns()?;
                let serves = |name: &String| intake.answered.get(name).is_some_and(|at_ns| *at_ns > served_ns);
                let remain = all.iter().filter(|name| !intake.away.contains(name));
                let load = intake.load_word.as_ref().filter(|word| is_whole(word, at_ns, &intake.away))?;
                (remain.clone().all(serves) && intake.silent.is_empty()).then(|| load.to_ns.max(served_ns))
            };
            let reached = |intake: &Intake| back_done(doing) || whole_at(intake).is_some();
            let ended = self.intake.until(limit_ns, self.managed.as_deref(), reached).await;
            let since = |ns: i64| ((ns - at_ns) as f64 / 1e9).max(0.0);
            doing.report.served_s = canary.first_answer_ns().map(since);
            doing.report.recovery_s = whole_at(&self.intake).map(since);
            match ended {
                Ended::Reached if back_done(doing) => {
                    let done = match doing.back.take() {
                        Some(back) => back.await.ok(),
                        None => None,
                    };
                    self.note_back(doing, done).await;
                    if doing.report.failed.is_some() {
                        return Ended::Reached;
                    }
                }
                Ended::Reached | Ended::Deadline => {
                    // A server that is started again at once is part of what has to recover.
                    if doing.action.deed != Deed::Restart || doing.back.is_none() || ended == Ended::Deadline {
                        return Ended::Reached;
                    }
                    doing.report.recovery_s = None;
                    let pause_ns = self.intake.clock.now_ns() + 200_000_000;
                    let ended = self.intake.until(pause_ns.min(limit_ns), self.managed.as_deref(), |_| false).await;
                    if ended != Ended::Deadline {
                        return ended;
                    }
                }
                Ended::GaveWay | Ended::Cancelled | Ended::TimeBudget | Ended::Guarded => return ended,
            }
        }
    }
}

/// The servers through which writes are tried: not those that are gone, unless they come back meanwhile. One that is
/// halted would only take time.
fn watched(servers: &[SocketAddr], doing: &Doing) -> Vec<SocketAddr> {
    let remain: Vec<SocketAddr> =
        servers.iter().copied().filter(|server| !doing.report.hit(&server.to_string())).collect();
    let all = remain.is_empty() || (doing.back.is_some() && doing.action.deed != Deed::Pause);
    if all { servers.to_vec() } else { remain }
}

/// Whether a second of the load, all of it after the action, went as if nothing had been: every session attached, none of
/// them to a server that is away, nothing failed, and what fell due was done.
fn is_whole(word: &LoadWord, at_ns: i64, away: &[String]) -> bool {
    let hangs = word.attached.iter().any(|(server, count)| *count > 0 && away.contains(&server.to_string()));
    word.from_ns >= at_ns
        && word.detached == 0
        && word.failed == 0
        && !hangs
        && word.asked.saturating_sub(word.done) <= UNDER_WAY.max(word.asked / 10)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_load_is_whole_when_a_second_after_the_action_went_as_before() {
        let server: SocketAddr = "127.0.0.1:2181".parse().unwrap();
        let word = LoadWord {
            from_ns: 10,
            to_ns: 20,
            attached: BTreeMap::from([(server, 6)]),
            detached: 0,
            asked: 100,
            done: 90,
            failed: 0,
        };
        assert!(is_whole(&word, 10, &[]));
        assert!(!is_whole(&word, 11, &[]), "part of it was before");
        assert!(!is_whole(&word, 10, &[server.to_string()]), "sessions hang on a server that is away");
        for broken in [
            LoadWord { detached: 1, ..word.clone() },
            LoadWord { failed: 1, ..word.clone() },
            LoadWord { done: 80, ..word.clone() },
        ] {
            assert!(!is_whole(&broken, 10, &[]), "{broken:?}");
        }
    }
}
