//! `sim`: a target of known capacity inside this process, for training, demonstrations, and for proving that Rampart finds
//! what is there. A real target to the engine: it is claimed, sampled and asked as any other.

mod system;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use system::Answer;
use system::System;

use super::{Claim, CleanPace, CleanReport, Condition, NodeCondition, Observation, Sampler, Target, TargetError};
use crate::{
    model::{Clock, Fault, Inventory, NodeInfo, RunId, Sample, Setting},
    sample::Generator,
};

/// The name of its only node in samples.
pub const NODE: &str = "sim";

/// How long servers work on a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTime {
    #[default]
    Constant,
    Exponential,
    /// With `variation` as the standard deviation over the mean.
    Lognormal,
}

/// What the system is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimSpec {
    /// Requests that are worked on at the same time.
    pub servers: u32,
    /// What one takes, as a mean.
    pub service_ms: f64,
    pub service_time: ServiceTime,
    pub variation: f64,
    /// How much busy servers wait for each other (sigma of Gunther's universal scalability law).
    pub contention: f64,
    /// How much they have to agree with each other (kappa of the same law).
    pub coherence: f64,
    /// Everything stands still for `pause_s` once in `pause_every_s`; 0: never.
    pub pause_every_s: f64,
    pub pause_s: f64,
    /// The share of requests that fail whatever the load.
    pub error_share: f64,
    /// With so many inside it refuses more; 0: never.
    pub errors_above: u64,
    /// With more than so many inside each request takes `collapse_factor` times as long; 0: never.
    pub collapse_above: u64,
    pub collapse_factor: f64,
    /// By what share of `service_ms` an hour requests take longer.
    pub leak_per_hour: f64,
    /// So long after the first request each takes `warm_up_factor` times as long.
    pub warm_up_s: f64,
    pub warm_up_factor: f64,
    pub seed: u64,
}

impl Default for SimSpec {
    fn default() -> Self {
        Self {
            servers: 2,
            service_ms: 1.0,
            service_time: ServiceTime::Constant,
            variation: 1.0,
            contention: 0.0,
            coherence: 0.0,
            pause_every_s: 0.0,
            pause_s: 0.0,
            error_share: 0.0,
            errors_above: 0,
            collapse_above: 0,
            collapse_factor: 3.0,
            leak_per_hour: 0.0,
            warm_up_s: 0.0,
            warm_up_factor: 3.0,
            seed: 1,
        }
    }
}

impl SimSpec {
    /// What it carries, in requests a second that end well: Gunther's universal scalability law with all servers busy, less
    /// pauses and failures; before it leaks.
    #[must_use]
    pub fn capacity_per_s(&self) -> f64 {
        let busy = f64::from(self.servers.max(1));
        let factor = 1.0 + self.contention * (busy - 1.0) + self.coherence * busy * (busy - 1.0);
        let awake = if self.pause_every_s > 0.0 { 1.0 - self.pause_s / self.pause_every_s } else { 1.0 };
        busy / (self.service_ms / 1e3 * factor) * awake * (1.0 - self.error_share)
    }

    /// What is wrong with it; fields are relative to the target.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let limits = [
            ("servers", f64::from(self.servers), 1.0, 10_000.0),
            ("service_ms", self.service_ms, 0.001, 60_000.0),
            ("variation", self.variation, 0.0, 100.0),
            ("contention", self.contention, 0.0, 1.0),
            ("coherence", self.coherence, 0.0, 1.0),
            ("pause_every_s", self.pause_every_s, 0.0, 86_400.0),
            ("pause_s", self.pause_s, 0.0, 0.99 * self.pause_every_s),
            ("error_share", self.error_share, 0.0, 0.99),
            ("collapse_factor", self.collapse_factor, 1.0, 1_000.0),
            ("leak_per_hour", self.leak_per_hour, 0.0, 10_000.0),
            ("warm_up_s", self.warm_up_s, 0.0, 86_400.0),
            ("warm_up_factor", self.warm_up_factor, 1.0, 1_000.0),
        ];
        let wrong = limits.into_iter().filter(|(_, value, low, high)| !(*low..=*high).contains(value));
        wrong
            .map(|(field, value, low, high)| Fault::new(field, format!("is {value}; allowed: {low} to {high}")))
            .collect()
    }

    /// What makes two of them the same system.
    fn key(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The systems that someone holds, as clusters that exist whoever looks at them.
static SYSTEMS: LazyLock<Mutex<HashMap<String, Weak<Shared>>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct Shared {
    system: Mutex<System>,
    /// The run that has claimed it.
    holder: Mutex<Option<RunId>>,
}

/// What a client or a sampler holds of a system.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Shared>);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// The system of that specification in this process; a new one when nobody holds it.
    #[must_use]
    pub fn of(spec: &SimSpec) -> Self {
        let mut systems = locked(&SYSTEMS);
        systems.retain(|_, system| system.strong_count() > 0);
        let key = spec.key();
        if let Some(system) = systems.get(&key).and_then(Weak::upgrade) {
            return Self(system);
        }
        let shared = Arc::new(Shared { system: Mutex::new(System::new(spec)), holder: Mutex::default() });
        systems.insert(key, Arc::downgrade(&shared));
        Self(shared)
    }

    /// A request comes at this moment; when and how it ends.
    #[must_use]
    pub fn arrive(&self, now_ns: i64) -> Answer {
        locked(&self.0.system).arrive(now_ns)
    }
}

/// The target.
#[derive(Debug)]
pub struct Sim {
    spec: SimSpec,
    handle: Handle,
}

impl Sim {
    #[must_use]
    pub fn new(spec: SimSpec) -> Self {
        Self { handle: Handle::of(&spec), spec }
    }
}

#[async_trait]
impl Target for Sim {
    async fn inventory(&self) -> Result<Inventory, TargetError> {
        let told = serde_json::to_value(&self.spec).unwrap_or_default();
        let settings = told.as_object().into_iter().flatten().map(|(name, value)| Setting {
            name: name.clone(),
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            source: "configuration".to_owned(),
        });
        let node = NodeInfo {
            name: NODE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: "standalone".to_owned(),
            local: true,
            ..NodeInfo::default()
        };
        Ok(Inventory {
            nodes: vec![node],
            settings: settings.collect(),
            sampling: vec![
                "the simulated system itself every 1 s".to_owned(),
                "Rampart's own process every 1 s".to_owned(),
            ],
            remarks: vec![format!(
                "A simulated system that carries {:.1} requests per second by its settings.",
                self.spec.capacity_per_s()
            )],
            ..Inventory::default()
        })
    }

    fn samplers(&self, clock: Clock, _inventory: &Inventory) -> Vec<Box<dyn Sampler>> {
        let mut samplers: Vec<Box<dyn Sampler>> =
            vec![Box::new(Reader::new(self.handle.clone(), self.spec.servers, clock))];
        samplers.extend(Generator::new(clock).map(|generator| Box::new(generator) as Box<dyn Sampler>));
        samplers
    }

    async fn claim(&self, run: RunId) -> Result<Box<dyn Claim>, TargetError> {
        let mut holder = locked(&self.handle.0.holder);
        if let Some(other) = *holder {
            return Err(TargetError::InUse { holder: format!("run {other}") });
        }
        *holder = Some(run);
        Ok(Box::new(Held { handle: self.handle.clone(), root: format!("/rampart-{}", run.short()) }))
    }

    async fn clean(&self, _pace: CleanPace) -> Result<CleanReport, TargetError> {
        Ok(CleanReport::default())
    }
}

/// A run's hold, which ends when it is dropped: nothing lies on such a system.
#[derive(Debug)]
struct Held {
    handle: Handle,
    root: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        locked(&self.handle.0.holder).take();
    }
}

#[async_trait]
impl Claim for Held {
    fn root(&self) -> &str {
        &self.root
    }

    fn leftovers(&self) -> &[String] {
        &[]
    }

    async fn release(self: Box<Self>, _pace: CleanPace) -> Result<CleanReport, TargetError> {
        Ok(CleanReport::default())
    }

    fn abandon(self: Box<Self>) {}
}

/// Reads what the system knows of itself.
#[derive(Debug)]
struct Reader {
    handle: Handle,
    servers: u32,
    clock: Clock,
    before: (i64, f64, u64),
}

impl Reader {
    fn new(handle: Handle, servers: u32, clock: Clock) -> Self {
        let (served_ns, answered) = {
            let system = locked(&handle.0.system);
            (system.served_ns(), system.answered)
        };
        let before = (clock.now_ns(), served_ns, answered);
        Self { before, handle, servers, clock }
    }
}

#[async_trait]
impl Sampler for Reader {
    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn sample(&mut self) -> Observation {
        let at_ns = self.clock.now_ns();
        let (inside, served_ns, answered) = {
            let mut system = locked(&self.handle.0.system);
            (system.inside(at_ns), system.served_ns(), system.answered)
        };
        let (before_ns, before_served_ns, before_answered) =
            std::mem::replace(&mut self.before, (at_ns, served_ns, answered));
        let sample =
            |metric: &str, value: f64| Sample { at_ns, node: NODE.to_owned(), metric: metric.to_owned(), value };
        let mut samples = vec![sample("outstanding_requests", inside as f64)];
        let passed_ns = (at_ns - before_ns) as f64;
        if passed_ns > 5e8 {
            // Work is counted when it is taken on: beyond what all servers can do it waits.
            let busy = (served_ns - before_served_ns) / (passed_ns * f64::from(self.servers.max(1)));
            samples.push(sample("busy_share", busy.min(1.0)));
            samples.push(sample("requests_per_s", answered.saturating_sub(before_answered) as f64 / passed_ns * 1e9));
        }
        let condition = NodeCondition {
            at_ns,
            node: NODE.to_owned(),
            condition: Condition::Serving,
            role: Some("standalone".to_owned()),
            text: String::new(),
        };
        Observation { samples, conditions: vec![condition], incidents: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_one_system_whoever_opens_it_and_held_by_one_run_at_a_time() {
        let spec = SimSpec { seed: 4_711, ..SimSpec::default() };
        let (one, two) = (Sim::new(spec.clone()), Sim::new(spec.clone()));
        assert!(matches!(one.handle.arrive(0), Answer::Done { at_ns: 1_000_000 }));
        assert_eq!(locked(&two.handle.0.system).answered, 1);
        let claim = one.claim(RunId::new()).await.unwrap();
        assert!(matches!(two.claim(RunId::new()).await, Err(TargetError::InUse { .. })));
        drop(claim);
        assert!(two.claim(RunId::new()).await.is_ok());
        let other = Sim::new(SimSpec { seed: 4_712, ..spec });
        assert_eq!(locked(&other.handle.0.system).answered, 0);
    }

    #[test]
    fn a_setting_that_makes_no_sense_is_named() {
        let faults = SimSpec { servers: 0, pause_s: 2.0, pause_every_s: 1.0, ..SimSpec::default() }.faults();
        let text: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(text[0].contains("servers") && text[0].contains("1 to 10000"), "{text:?}");
        assert!(text[1].contains("pause_s") && text[1].contains("0 to 0.99"), "{text:?}");
    }
}
