//! The server's own configuration file: where it listens and stores, which targets and recipes exist.
//! Targets and what may be launched come from here, never from a request alone.

mod read;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;

pub use read::{Document, read_value};

use crate::{
    launch::{NamedCommand, Recipe},
    model::{Fault, Faults},
    target::{
        TargetSpec,
        zookeeper::{self, TlsOptions, tls::TlsFiles},
    },
};

/// A configuration, with built-in recipes where the file names none of that name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    pub server: Server,
    #[serde(default)]
    pub targets: BTreeMap<String, TargetSpec>,
    #[serde(default)]
    pub recipes: BTreeMap<String, Recipe>,
    /// What a scenario may have run by name.
    #[serde(default)]
    pub commands: BTreeMap<String, NamedCommand>,
}

/// How the server runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Loopback unless told otherwise; anything else is refused until there are tokens.
    pub listen: SocketAddr,
    pub database: PathBuf,
    /// Where scenario files of the server lie.
    pub scenarios: PathBuf,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7117)),
            database: "rampart.db".into(),
            scenarios: "scenarios".into(),
        }
    }
}

/// Recipes that exist without a configuration file.
const BUILT_IN: &str = include_str!("built_in.toml");

impl Config {
    /// Reads the file, or gives the built-in configuration without one.
    ///
    /// # Errors
    /// Every fault with line, field and what is allowed.
    pub fn load(path: Option<&Path>) -> Result<Self, Faults> {
        let text = match path {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|cause| Fault::new("", format!("{} cannot be read: {cause}", path.display())))?,
            None => String::new(),
        };
        Self::parse(&text)
    }

    /// Reads a configuration's text over the built-in one.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str) -> Result<Self, Faults> {
        let built_in: Self = Document::parse(BUILT_IN)?.read()?;
        let document = Document::parse(text)?;
        check_targets(&document)?;
        let mut config: Self = document.read()?;
        for (name, recipe) in built_in.recipes {
            config.recipes.entry(name).or_insert(recipe);
        }
        for (name, target) in built_in.targets {
            config.targets.entry(name).or_insert(target);
        }
        let faults: Vec<Fault> = config.faults().into_iter().map(|fault| document.locate(fault)).collect();
        if faults.is_empty() { Ok(config) } else { Err(Faults(faults)) }
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (name, target) in &self.targets {
            let spec = match target {
                TargetSpec::Zookeeper(spec) => spec,
                TargetSpec::Sim(spec) => {
                    let at = |fault: Fault| Fault { field: format!("targets.{name}.{}", fault.field), ..fault };
                    faults.extend(spec.faults().into_iter().map(at));
                    continue;
                }
            };
            if spec.servers.is_empty() {
                faults.push(Fault::new(
                    format!("targets.{name}.servers"),
                    "is empty; at least one address:port is needed",
                ));
            }
            let servers = spec.servers.len();
            let lists = [
                ("admin_urls", spec.admin_urls.len()),
                ("metrics_urls", spec.metrics_urls.len()),
                ("node_exporters", spec.node_exporters.len()),
                ("hosts", spec.hosts.len()),
            ];
            // One that is missing would give its neighbour's figures to a server.
            for (key, entries) in lists.into_iter().filter(|(_, entries)| *entries != 0 && *entries != servers) {
                faults.push(Fault::new(
                    format!("targets.{name}.{key}"),
                    format!("has {entries} entries; allowed: {servers}, one a server and in their order, or none"),
                ));
            }
            let chroot = &spec.chroot;
            if !chroot.is_empty() && (!chroot.starts_with('/') || chroot.ends_with('/')) {
                faults.push(Fault::new(
                    format!("targets.{name}.chroot"),
                    format!("is {chroot:?}; allowed: empty, or a path such as \"/staging\" that starts with / and does not end with it"),
                ));
            }
        }
        for (name, command) in &self.commands {
            if let Err((field, message)) = command.check() {
                faults.push(Fault::new(format!("commands.{name}.{field}"), message));
            }
        }
        faults
    }
}

/// Keys by which other clients are told to sign in by SASL.
const KERBEROS_KEYS: &[&str] = &["sasl", "kerberos", "principal", "keytab", "jaas"];

/// Faults of targets that reading them as a whole would tell without their field, or as an unknown key.
fn check_targets(document: &Document<'_>) -> Result<(), Faults> {
    let mut faults = Vec::new();
    for (name, target) in document.tables("targets") {
        let asked = KERBEROS_KEYS.iter().filter(|key| target.contains_key(**key));
        faults.extend(asked.map(|key| Fault::new(format!("targets.{name}.{key}"), zookeeper::NO_KERBEROS)));
        let Some(tls) = target.get("tls") else { continue };
        let at = format!("targets.{name}.tls");
        match read_value::<TlsFiles>(tls.clone(), &at).map(TlsOptions::try_from) {
            Err(fault) => faults.push(fault),
            Ok(Err(error)) => faults.push(Fault::new(format!("{at}.{}", error.field), error.message)),
            Ok(Ok(_)) => {}
        }
    }
    let faults: Vec<_> = faults.into_iter().map(|fault| document.locate(fault)).collect();
    if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_configuration_is_sound() {
        let config = Config::load(None).unwrap();
        assert!(config.recipes.contains_key("local-small") && config.recipes.contains_key("local"));
        let ensemble = &config.recipes["local-ensemble"];
        assert_eq!((ensemble.nodes, ensemble.heap_mib), (3, 256));
        assert!(config.recipes.values().all(|recipe| recipe.check().is_ok()));
    }

    #[test]
    fn a_target_without_servers_is_named_with_its_line() {
        let faults = Config::parse("[targets.staging]\nkind = \"zookeeper\"\nservers = []\n").unwrap_err();
        assert_eq!(faults.0[0].line, Some(3));
        assert_eq!(faults.0[0].field, "targets.staging.servers");
    }

    #[test]
    fn kerberos_is_refused_by_name() {
        for key in ["sasl", "kerberos", "keytab"] {
            let text = format!("[targets.a]\nkind = \"zookeeper\"\nservers = [\"127.0.0.1:1\"]\n{key} = \"x\"\n");
            let faults = Config::parse(&text).unwrap_err();
            assert_eq!((faults.0[0].field.clone(), faults.0[0].line), (format!("targets.a.{key}"), Some(4)));
            assert!(faults.0[0].message.contains("SASL (Kerberos), which Rampart does not speak"), "{faults}");
        }
    }

    #[test]
    fn a_file_of_tls_that_cannot_be_used_is_named_with_its_field() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let ca = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(path("ca.pem"), ca.cert.pem()).unwrap();
        std::fs::write(path("key.pem"), ca.signing_key.serialize_pem()).unwrap();
        let read = |keys: &str| {
            let text =
                format!("[targets.a]\nkind = \"zookeeper\"\nservers = [\"127.0.0.1:1\"]\n\n[targets.a.tls]\n{keys}");
            Config::parse(&text.replace('@', dir.path().to_str().unwrap()))
        };
        read("ca = \"@/ca.pem\"\n").unwrap();
        read("ca = \"@/ca.pem\"\ncert = \"@/ca.pem\"\nkey = \"@/key.pem\"\nserver_name = \"zk.example\"\n").unwrap();
        for (keys, at, words) in [
            ("", "", "missing field `ca`".to_owned()),
            ("ca = \"@/none.pem\"\n", ".ca", format!("{:?} cannot be read: No such file", path("none.pem"))),
            ("ca = \"@/key.pem\"\n", ".ca", format!("{:?} cannot be used: there is no certificate", path("key.pem"))),
            ("ca = \"@/ca.pem\"\ncert = \"@/ca.pem\"\n", ".cert", "needs a key: both or neither".to_owned()),
            ("ca = \"@/ca.pem\"\nkey = \"@/key.pem\"\n", ".key", "needs a cert: both or neither".to_owned()),
            (
                "ca = \"@/ca.pem\"\ncert = \"@/ca.pem\"\nkey = \"@/ca.pem\"\n",
                ".key",
                format!("{:?} cannot be used", path("ca.pem")),
            ),
            ("ca = \"@/ca.pem\"\nserver_name = \"a b\"\n", ".server_name", "\"a b\" is neither".to_owned()),
            ("ca = \"@/ca.pem\"\nverify = false\n", ".verify", "unknown field `verify`".to_owned()),
        ] {
            let faults = read(keys).unwrap_err();
            assert!(faults.0[0].field.starts_with(&format!("targets.a.tls{at}")), "{faults}");
            assert!(faults.0[0].line >= Some(5), "{faults}");
            assert!(faults.to_string().contains(&words), "{faults}");
        }
    }

    #[test]
    fn a_command_needs_a_program_and_an_end() {
        let config = Config::parse("[commands.fail-over]\nrun = [\"true\"]\n").unwrap();
        assert_eq!(config.commands["fail-over"].timeout_s, 30);
        for (text, field, line) in [
            ("[commands.a]\nrun = []\n", "commands.a.run", 2),
            ("[commands.a]\nrun = [\"\"]\n", "commands.a.run", 2),
            ("[commands.a]\nrun = [\"x\"]\ntimeout_s = 0\n", "commands.a.timeout_s", 3),
            ("[commands.a]\nrun = [\"x\"]\ntimeout_s = 86401\n", "commands.a.timeout_s", 3),
            ("[commands.a]\nrun = \"x y\"\n", "commands.a.run", 2),
            ("[commands.a]\nrun = [\"x\"]\nshell = true\n", "commands.a.shell", 3),
        ] {
            let faults = Config::parse(text).unwrap_err();
            assert_eq!((faults.0[0].field.as_str(), faults.0[0].line), (field, Some(line)), "{text}: {faults}");
        }
    }

    #[test]
    fn what_stands_once_a_server_has_an_entry_for_each() {
        let head = "[targets.box]\nkind = \"zookeeper\"\nservers = [\"10.0.0.1:2181\", \"10.0.0.2:2181\"]\n";
        for key in ["admin_urls", "metrics_urls", "node_exporters"] {
            let faults = Config::parse(&format!("{head}{key} = [\"http://10.0.0.2:1\"]\n")).unwrap_err();
            assert_eq!(
                (faults.0[0].line, faults.0[0].field.as_str()),
                (Some(4), format!("targets.box.{key}").as_str())
            );
            assert!(faults.to_string().contains("has 1 entries; allowed: 2"), "{faults}");
        }
        let hosts = "hosts = [{ cores = 16, memory_bytes = 64000000000 }, { name = \"b\", cpu = \"EPYC\" }]\n";
        let config = Config::parse(&format!("{head}{hosts}")).unwrap();
        let target = config.targets["box"].zookeeper().unwrap();
        assert_eq!((target.hosts[0].cores, target.hosts[1].cpu.as_deref()), (Some(16), Some("EPYC")));
        let faults = Config::parse(&format!("{head}hosts = [{{ core = 16 }}, {{}}]\n")).unwrap_err();
        assert!(faults.to_string().contains("core") && faults.to_string().contains("memory_bytes"), "{faults}");
    }

    #[test]
    fn an_unknown_key_of_the_server_is_an_error() {
        let faults = Config::parse("[server]\nlisen = \"127.0.0.1:1\"\n").unwrap_err();
        assert!(faults.to_string().contains("line 2: server.lisen"), "{faults}");
    }
}
