//! The targets and recipes of the configuration. Credentials are never shown.

use askama::Template;
use axum::{extract::State, response::Response};

use super::{Shell, html};
use crate::{
    config::Config,
    report::format,
    target::{TargetSpec, zookeeper::ZookeeperSpec},
    web::AppState,
};

/// The page.
#[derive(Debug, Template)]
#[template(path = "targets.html")]
pub struct TargetsPage {
    pub shell: Shell,
    pub targets: Vec<TargetLine>,
    pub recipes: Vec<RecipeLine>,
}

/// A target that stands by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetLine {
    pub name: String,
    pub kind: &'static str,
    pub servers: String,
    pub root: String,
    pub sign_in: &'static str,
    pub sampling: String,
}

/// A target that a run launches for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeLine {
    pub name: String,
    pub kind: String,
    pub launcher: String,
    pub heap: String,
    pub allow: String,
}

/// The page of a configuration.
#[must_use]
pub fn view(config: &Config) -> TargetsPage {
    TargetsPage {
        shell: Shell::new("Targets", "/targets"),
        targets: config.targets.iter().map(|(name, spec)| target(name, spec)).collect(),
        recipes: config
            .recipes
            .iter()
            .map(|(name, recipe)| RecipeLine {
                name: name.clone(),
                kind: recipe.kind.clone(),
                launcher: recipe.launcher.clone(),
                heap: match &recipe.command {
                    Some(_) => "its own".to_owned(),
                    None => format!("{}{}MiB", format::count(u64::from(recipe.heap_mib)), format::THIN),
                },
                allow: if recipe.allow.is_empty() { "nothing".to_owned() } else { recipe.allow.join(", ") },
            })
            .collect(),
    }
}

fn target(name: &str, spec: &TargetSpec) -> TargetLine {
    let kind = spec.kind();
    match spec {
        TargetSpec::Sim(spec) => TargetLine {
            name: name.to_owned(),
            kind,
            servers: format!("simulated, carries {} per second", format::figure(spec.capacity_per_s())),
            root: "none".to_owned(),
            sign_in: "none",
            sampling: "the simulated system itself".to_owned(),
        },
        TargetSpec::Zookeeper(spec) => TargetLine {
            name: name.to_owned(),
            kind,
            servers: join(spec.servers.iter()),
            root: if spec.chroot.is_empty() { "/".to_owned() } else { spec.chroot.clone() },
            sign_in: match (spec.digest.is_some(), spec.tls.as_ref().is_some_and(|tls| tls.has_certificate())) {
                (true, true) => "digest, client certificate",
                (true, false) => "digest",
                (false, true) => "client certificate",
                (false, false) => "none",
            },
            sampling: sampling(spec),
        },
    }
}

fn sampling(spec: &ZookeeperSpec) -> String {
    let doors = [
        ("Prometheus provider", &spec.metrics_urls),
        ("AdminServer", &spec.admin_urls),
        ("node_exporter", &spec.node_exporters),
    ];
    let named = doors.into_iter().filter(|(_, urls)| !urls.is_empty());
    let named = named.map(|(what, urls)| format!("{what} {}", join(urls.iter())));
    let over_tls = if spec.tls.is_some() { " over TLS" } else { "" };
    std::iter::once(format!("four-letter commands{over_tls}")).chain(named).collect::<Vec<_>>().join(", ")
}

fn join(all: impl Iterator<Item = impl ToString>) -> String {
    all.map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}

pub(super) async fn page(State(state): State<AppState>) -> Response {
    html(&view(&state.config))
}
