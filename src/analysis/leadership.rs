//! Whether exactly one server of an ensemble leads, out of what each says in one round of samples. No clock, no I/O.

use std::collections::BTreeMap;

use crate::model::{Incident, IncidentKind};

/// What one server said of its role when it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// `leader`, `follower`, `observer`, `standalone`.
    Role(String),
    /// It answered nothing, or that it does not serve: whoever does not serve does not lead.
    Nothing,
    /// The question itself was refused, which says nothing of the role.
    Unknown,
}

const LEADER: &str = "leader";

/// What is wrong with one round of an ensemble, in words; `None` where exactly one server leads, where that cannot be told,
/// and for a server that stands alone.
#[must_use]
pub fn not_one(round: &BTreeMap<String, Said>) -> Option<String> {
    let leads = |said: &Said| matches!(said, Said::Role(role) if role == LEADER);
    let alone = |said: &Said| matches!(said, Said::Role(role) if role == "standalone");
    let leaders: Vec<&str> = round.iter().filter(|(_, said)| leads(said)).map(|(node, _)| node.as_str()).collect();
    if round.len() < 2 || round.values().any(alone) || leaders.len() == 1 {
        return None;
    }
    if leaders.len() > 1 {
        return Some(format!(
            "{} of {} servers say that they lead: {}",
            leaders.len(),
            round.len(),
            leaders.join(", ")
        ));
    }
    // The leader may be the one that could not be asked.
    if round.values().any(|said| *said == Said::Unknown) {
        return None;
    }
    let each = round.iter().map(|(node, said)| match said {
        Said::Role(role) => format!("{node} is {role}"),
        Said::Nothing | Said::Unknown => format!("{node} does not serve"),
    });
    Some(format!("none of {} servers says that it leads: {}", round.len(), each.collect::<Vec<_>>().join(", ")))
}

/// The roles of a run's servers, round by round. A round is over when each of them was asked once more.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    servers: usize,
    round: BTreeMap<String, Said>,
    /// The role that each had when it last told one.
    roles: BTreeMap<String, String>,
    /// Whether what is wrong was told already.
    told: bool,
}

impl Rounds {
    /// For servers that had these roles before; `unknown` is none.
    #[must_use]
    pub fn new(mut roles: BTreeMap<String, String>) -> Self {
        let servers = roles.len();
        roles.retain(|_, role| role != "unknown");
        Self { servers, roles, ..Self::default() }
    }

    /// What lasts is told again, for the trial that begins.
    pub fn begin(&mut self) {
        self.told = false;
    }

    /// Takes what one server said, and gives what is new: a role that changed, a round without exactly one leader.
    pub fn take(&mut self, at_ns: i64, node: &str, said: Said) -> Vec<Incident> {
        let mut incidents = Vec::new();
        if let Said::Role(role) = &said
            && let Some(before) = self.roles.insert(node.to_owned(), role.clone())
            && before != *role
        {
            let text = format!("{node} was {before} and is {role}");
            incidents.push(incident(at_ns, IncidentKind::RoleChanged, node, text));
        }
        self.round.insert(node.to_owned(), said);
        if self.round.len() >= self.servers {
            match not_one(&std::mem::take(&mut self.round)) {
                Some(text) if !std::mem::replace(&mut self.told, true) => {
                    incidents.push(incident(at_ns, IncidentKind::NotOneLeader, "", text));
                }
                Some(_) => {}
                None => self.told = false,
            }
        }
        incidents
    }
}

fn incident(at_ns: i64, kind: IncidentKind, node: &str, text: String) -> Incident {
    Incident { at_ns, kind, node: node.to_owned(), text, amount: 1.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn role(role: &str) -> Said {
        Said::Role(role.to_owned())
    }

    fn round(said: &[(&str, Said)]) -> BTreeMap<String, Said> {
        said.iter().map(|(node, said)| ((*node).to_owned(), said.clone())).collect()
    }

    #[test]
    fn no_leader_and_two_are_said_in_words() {
        let two = round(&[("a", role("leader")), ("b", role("follower")), ("c", role("leader"))]);
        assert_eq!(not_one(&two).unwrap(), "2 of 3 servers say that they lead: a, c");
        let none = round(&[("a", Said::Nothing), ("b", role("follower")), ("c", role("observer"))]);
        let text = "none of 3 servers says that it leads: a does not serve, b is follower, c is observer";
        assert_eq!(not_one(&none).unwrap(), text);
    }

    #[test]
    fn what_cannot_be_told_is_not_claimed() {
        assert_eq!(not_one(&round(&[("a", Said::Unknown), ("b", role("follower"))])), None, "it may lead");
        assert_eq!(not_one(&round(&[("a", role("standalone"))])), None);
        assert_eq!(not_one(&round(&[("a", Said::Nothing)])), None, "a stall, not an election");
        let two = [("a", Said::Unknown), ("b", role("leader")), ("c", role("leader"))];
        assert!(not_one(&round(&two)).is_some(), "two are two whatever the third is");
    }

    #[test]
    fn what_lasts_is_told_once_a_trial_and_roles_are_followed() {
        let before = [("a", "leader"), ("b", "follower")].map(|(node, role)| (node.to_owned(), role.to_owned()));
        let mut rounds = Rounds::new(before.into());
        let mut kinds = |at_ns, a: Said, b: Said| {
            let mut all = rounds.take(at_ns, "a", a);
            all.extend(rounds.take(at_ns, "b", b));
            all.into_iter().map(|incident| incident.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(1, role("leader"), role("follower")), []);
        assert_eq!(kinds(2, Said::Nothing, role("follower")), [IncidentKind::NotOneLeader]);
        assert_eq!(kinds(3, Said::Nothing, role("follower")), [], "told already");
        assert_eq!(kinds(4, Said::Nothing, role("leader")), [IncidentKind::RoleChanged]);
        assert_eq!(kinds(5, role("follower"), role("leader")), [IncidentKind::RoleChanged]);
        assert_eq!(kinds(6, Said::Nothing, Said::Nothing), [IncidentKind::NotOneLeader]);
        rounds.begin();
        let _ = rounds.take(7, "a", Said::Nothing);
        assert_eq!(rounds.take(7, "b", Said::Nothing).len(), 1, "another trial has to know too");
    }

    #[test]
    fn a_round_waits_for_each_server_and_a_first_role_is_no_change() {
        let roles = ["a", "b"].map(|node| (node.to_owned(), "unknown".to_owned()));
        let mut rounds = Rounds::new(roles.into());
        for at_ns in 0..5 {
            assert_eq!(rounds.take(at_ns, "a", role("follower")), [], "b may lead");
        }
        assert_eq!(rounds.take(5, "b", role("follower")).len(), 1);
    }

    fn any_said() -> impl Strategy<Value = Said> {
        prop_oneof![
            3 => Just(role("follower")),
            2 => Just(role("leader")),
            1 => Just(role("observer")),
            1 => Just(Said::Nothing),
            1 => Just(Said::Unknown),
        ]
    }

    proptest! {
        #[test]
        fn exactly_one_leader_or_the_round_says_so(said in proptest::collection::vec(any_said(), 2..6)) {
            let round: BTreeMap<_, _> = said.iter().enumerate().map(|(i, said)| (format!("s{i}"), said.clone())).collect();
            let leaders = said.iter().filter(|said| **said == role("leader")).count();
            let unknown = said.contains(&Said::Unknown);
            let words = not_one(&round);
            prop_assert_eq!(words.is_none(), leaders == 1 || (leaders == 0 && unknown), "{:?} of {:?}", words, round);
            if let Some(words) = words {
                for (node, said) in &round {
                    prop_assert!(leaders > 1 && *said != role("leader") || words.contains(node.as_str()));
                }
            }
        }

        #[test]
        fn a_spell_is_told_once_and_only_after_whole_rounds(
            said in proptest::collection::vec((0..3_usize, any_said()), 0..60),
        ) {
            let names = ["a", "b", "c"];
            let mut rounds = Rounds::new(names.map(|name| (name.to_owned(), "follower".to_owned())).into());
            let mut told = 0;
            for (at_ns, (who, said)) in said.iter().enumerate() {
                for incident in rounds.take(at_ns as i64, names[*who], said.clone()) {
                    told += usize::from(incident.kind == IncidentKind::NotOneLeader);
                }
            }
            prop_assert!(told <= said.len() / 3);
        }
    }
}
