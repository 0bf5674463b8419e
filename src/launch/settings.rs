//! Which settings a recipe may have, and who may change them: checks and changes of a [`Recipe`], without I/O.
//! `zoo.cfg` and the command line are written from what passes here, so nothing may pass that could smuggle in a line.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::{LaunchError, Recipe};

/// Heaps that make sense, in MiB: below, no server starts; above, pointers are not compressed long since.
pub const HEAP_MIB: RangeInclusive<u32> = 16..=65_536;

/// Sizes of ensembles: an even number of servers carries no more failures than one server less.
pub const NODES: &[u32] = &[1, 3, 5];

/// Launchers there are, as (kind of target, launcher).
pub const LAUNCHERS: &[(&str, &str)] = &[("zookeeper", "local"), ("zookeeper", COMMAND)];

/// The launcher whose recipes say all in `[recipes.NAME.command]`.
const COMMAND: &str = "command";

/// Keys of `zoo.cfg` that the launcher sets itself: where data lie, where the server listens, who its peers are.
const OWNED_KEYS: &[&str] = &[
    "dataDir",
    "dataLogDir",
    "clientPortAddress",
    "secureClientPort",
    "secureClientPortAddress",
    "admin.serverPort",
    "admin.serverAddress",
    "admin.commandURL",
    "dynamicConfigFile",
];
/// As [`OWNED_KEYS`], with a number or a name behind the point.
const OWNED_PREFIXES: &[&str] = &["server.", "group.", "weight."];

/// Owned where the launcher switches the Prometheus provider on, which is with a `version`.
const PROVIDER_KEYS: &[&str] = &["metricsProvider.httpHost", "metricsProvider.httpPort"];

/// JVM arguments that say again what `heap_mib` says.
const HEAP_ARGS: &[&str] = &["-Xmx", "-Xms", "-XX:MaxHeapSize", "-XX:InitialHeapSize", "-XX:MaxRAMPercentage"];

impl Recipe {
    /// Checks everything that can be checked without looking at the machine.
    ///
    /// # Errors
    /// [`LaunchError::Setting`] with the first field that is not allowed, its value and what is.
    pub fn check(&self) -> Result<(), LaunchError> {
        if !LAUNCHERS.contains(&(self.kind.as_str(), self.launcher.as_str())) {
            let known = LAUNCHERS.iter().map(|(kind, launcher)| format!("{launcher} for {kind}"));
            let value = format!("{} for {}", self.launcher, self.kind);
            return Err(refused("launcher", &value, known.collect::<Vec<_>>().join(", ")));
        }
        match (self.launcher.as_str(), &self.command) {
            (COMMAND, Some(command)) => {
                self.only_command()?;
                return command.check();
            }
            (COMMAND, None) => {
                return Err(refused("command", "nothing", "a table with start, stop and target".to_owned()));
            }
            (launcher, Some(_)) => {
                return Err(refused("command", "a table", format!("none with the launcher {launcher}")));
            }
            (_, None) => {}
        }
        if !HEAP_MIB.contains(&self.heap_mib) {
            return Err(refused("heap_mib", &self.heap_mib.to_string(), heap_range()));
        }
        if !NODES.contains(&self.nodes) {
            return Err(refused("nodes", &self.nodes.to_string(), node_counts()));
        }
        if let Some(version) = &self.version {
            check_version(version)?;
        }
        for argument in &self.jvm_args {
            check_jvm_arg(argument)?;
        }
        for (key, value) in &self.zoo_cfg {
            check_zoo_cfg(key, value)?;
            if self.version.is_some() && PROVIDER_KEYS.contains(&key.as_str()) {
                return Err(owned(key, value));
            }
        }
        for (key, value) in &self.system_properties {
            let field = format!("system_properties.{key}");
            check_plain(&field, key, value)?;
        }
        Ok(())
    }

    /// What a program of somebody else would never hear of must not look as if it did.
    fn only_command(&self) -> Result<(), LaunchError> {
        let plain = Self::new(&self.kind);
        for (field, is_plain) in [
            ("nodes", self.nodes == plain.nodes),
            ("version", self.version == plain.version),
            ("heap_mib", self.heap_mib == plain.heap_mib),
            ("jvm_args", self.jvm_args == plain.jvm_args),
            ("zoo_cfg", self.zoo_cfg == plain.zoo_cfg),
            ("system_properties", self.system_properties == plain.system_properties),
            ("java", self.java == plain.java),
        ] {
            if !is_plain {
                let allowed = "nothing with the launcher command, whose programs are told by their arguments";
                return Err(refused(field, "something", allowed.to_owned()));
            }
        }
        Ok(())
    }

    /// The recipe with settings of a scenario over its own: `heap_mib`, `nodes`, `version`, `jvm_args` (an array, or
    /// words divided by spaces), `java`, `java_home` (the folder above `bin/java`), `zoo_cfg.KEY`, `system_properties.KEY`; the last two may also be tables.
    /// Unless `allow_everything` (the local user), only names that [`Recipe::allow`] lists. For the launcher `command`
    /// any name that it lists, and no other.
    ///
    /// # Errors
    /// [`LaunchError::Setting`] with the field, its value and what is allowed.
    pub fn with_settings(
        &self,
        settings: &BTreeMap<String, toml::Value>,
        allow_everything: bool,
    ) -> Result<Self, LaunchError> {
        let mut recipe = self.clone();
        for (name, value) in flat(settings) {
            let needs_leave = !allow_everything || recipe.command.is_some();
            if needs_leave && !self.allows(&name) {
                let allowed = match self.allow.as_slice() {
                    [] => "nothing: the recipe has no `allow`".to_owned(),
                    names => names.join(", "),
                };
                return Err(refused(&name, &plain(&value), allowed));
            }
            match &mut recipe.command {
                Some(command) => command.set(&name, plain(&value))?,
                None => recipe.set(&name, &value)?,
            }
        }
        recipe.check()?;
        Ok(recipe)
    }

    /// Whether [`Recipe::allow`] lists the name, itself or by `zoo_cfg.*` or `system_properties.*`.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.allow.iter().any(|allowed| match allowed.strip_suffix(".*") {
            Some(table) => name.strip_prefix(table).is_some_and(|key| key.len() > 1 && key.starts_with('.')),
            None => allowed == name,
        })
    }

    fn set(&mut self, name: &str, value: &toml::Value) -> Result<(), LaunchError> {
        match name.split_once('.') {
            None if name == "heap_mib" => {
                let mib = plain(value).parse().ok().filter(|mib| HEAP_MIB.contains(mib));
                self.heap_mib = mib.ok_or_else(|| refused(name, &plain(value), heap_range()))?;
            }
            None if name == "nodes" => {
                let nodes = plain(value).parse().ok().filter(|nodes| NODES.contains(nodes));
                self.nodes = nodes.ok_or_else(|| refused(name, &plain(value), node_counts()))?;
            }
            None if name == "version" => self.version = Some(plain(value)),
            None if name == "java" => self.java = Some(plain(value)),
            None if name == "java_home" => self.java = Some(format!("{}/bin/java", plain(value).trim_end_matches('/'))),
            None if name == "jvm_args" => {
                self.jvm_args = match value.as_array() {
                    Some(words) => words.iter().map(plain).collect(),
                    None => plain(value).split_whitespace().map(str::to_owned).collect(),
                };
            }
            Some(("zoo_cfg", key)) => {
                self.zoo_cfg.insert(key.to_owned(), plain(value));
            }
            Some(("system_properties", key)) => {
                self.system_properties.insert(key.to_owned(), plain(value));
            }
            None | Some(_) => {
                let allowed = "heap_mib, nodes, version, jvm_args, java, java_home, zoo_cfg.KEY, system_properties.KEY";
                return Err(refused(name, &plain(value), allowed.to_owned()));
            }
        }
        Ok(())
    }
}

/// Settings by their whole names.
#[must_use]
pub fn flat(settings: &BTreeMap<String, toml::Value>) -> BTreeMap<String, toml::Value> {
    let mut flat = BTreeMap::new();
    for (name, value) in settings {
        flatten(name, value, &mut flat);
    }
    flat
}

/// `a = { b = { c = 1 } }` is the setting `a.b.c`, as TOML itself reads `a.b.c = 1`.
fn flatten(name: &str, value: &toml::Value, into: &mut BTreeMap<String, toml::Value>) {
    match value.as_table() {
        Some(table) => {
            for (key, inner) in table {
                flatten(&format!("{name}.{key}"), inner, into);
            }
        }
        None => {
            into.insert(name.to_owned(), value.clone());
        }
    }
}

fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn heap_range() -> String {
    format!("{} to {} MiB", HEAP_MIB.start(), HEAP_MIB.end())
}

fn node_counts() -> String {
    NODES.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn owned(key: &str, value: &str) -> LaunchError {
    let allowed = format!("keys other than {key}, which the launcher sets itself");
    refused(&format!("zoo_cfg.{key}"), value, allowed)
}

fn refused(field: &str, value: &str, allowed: String) -> LaunchError {
    LaunchError::Setting { field: field.to_owned(), value: value.to_owned(), allowed }
}

/// A version becomes the name of a folder and a line of a POM: numbers with points between them, nothing else.
fn check_version(version: &str) -> Result<(), LaunchError> {
    let is_number = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if (2..=4).contains(&version.split('.').count()) && version.split('.').all(is_number) {
        return Ok(());
    }
    let version = version.escape_debug().to_string();
    Err(refused("version", &version, "numbers with points between them, such as 3.9.4".to_owned()))
}

fn check_jvm_arg(argument: &str) -> Result<(), LaunchError> {
    if HEAP_ARGS.iter().any(|owned| argument.starts_with(owned)) {
        return Err(refused("jvm_args", argument, "arguments other than the heap's size; use heap_mib".to_owned()));
    }
    // Anything else would be the main class, or an argument of the server.
    if !argument.starts_with('-') || argument.chars().any(char::is_control) {
        return Err(refused("jvm_args", argument, "arguments that begin with -".to_owned()));
    }
    if matches!(argument, "-cp" | "-classpath" | "--class-path" | "-jar") {
        return Err(refused(
            "jvm_args",
            argument,
            "arguments other than the class path; set ZOOKEEPER_HOME".to_owned(),
        ));
    }
    Ok(())
}

fn check_zoo_cfg(key: &str, value: &str) -> Result<(), LaunchError> {
    let field = format!("zoo_cfg.{key}");
    if OWNED_KEYS.contains(&key) || OWNED_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
        return Err(owned(key, value));
    }
    check_plain(&field, key, value)?;
    if key == "clientPort" && value.parse::<u16>().ok().is_none_or(|port| port == 0) {
        return Err(refused(&field, value, "1 to 65535".to_owned()));
    }
    Ok(())
}

/// Keys of letters, digits and `.-_`, values without control characters: anything else could end a line or an argument
/// and begin another.
fn check_plain(field: &str, key: &str, value: &str) -> Result<(), LaunchError> {
    if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')) {
        return Err(refused(field, value, "keys of letters, digits, '.', '-' and '_'".to_owned()));
    }
    if value.chars().any(char::is_control) {
        return Err(refused(field, &value.escape_debug().to_string(), "values of one line".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> Recipe {
        Recipe::new("zookeeper")
    }

    fn settings(text: &str) -> BTreeMap<String, toml::Value> {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_local_user_may_set_everything() {
        let text = "heap_mib = 256\njvm_args = ['-XX:+UseSerialGC']\njava = '/opt/java'\n\
                    zoo_cfg.snapCount = 1000\n'zoo_cfg.tickTime' = '500'\n\
                    system_properties.zookeeper.forceSync = 'no'";
        let changed = recipe().with_settings(&settings(text), true).unwrap();
        assert_eq!(changed.heap_mib, 256);
        assert_eq!(changed.jvm_args, ["-XX:+UseSerialGC"]);
        assert_eq!(changed.java.as_deref(), Some("/opt/java"));
        let by_home = recipe().with_settings(&settings("java_home = '/opt/jdk/'"), true).unwrap();
        assert_eq!(by_home.java.as_deref(), Some("/opt/jdk/bin/java"));
        assert_eq!(changed.zoo_cfg["snapCount"], "1000");
        assert_eq!(changed.zoo_cfg["tickTime"], "500");
        assert_eq!(changed.system_properties["zookeeper.forceSync"], "no");
    }

    #[test]
    fn over_the_network_only_what_the_recipe_allows() {
        let mut recipe = recipe();
        recipe.allow = vec!["heap_mib".to_owned(), "zoo_cfg.*".to_owned()];
        assert!(recipe.with_settings(&settings("heap_mib = 128\nzoo_cfg.snapCount = 5"), false).is_ok());
        for refused in ["jvm_args = '-XX:OnOutOfMemoryError=sh'", "java = '/tmp/x'", "system_properties.a = 'b'"] {
            let error = recipe.with_settings(&settings(refused), false).unwrap_err().to_string();
            assert!(error.contains("allowed: heap_mib, zoo_cfg.*"), "{error}");
        }
        recipe.allow.clear();
        let error = recipe.with_settings(&settings("heap_mib = 128"), false).unwrap_err().to_string();
        assert_eq!(error, "the recipe says heap_mib = 128; allowed: nothing: the recipe has no `allow`");
    }

    #[test]
    fn a_wildcard_allows_keys_of_its_table_only() {
        let mut recipe = recipe();
        recipe.allow = vec!["zoo_cfg.*".to_owned()];
        assert!(recipe.allows("zoo_cfg.snapCount"));
        assert!(!recipe.allows("zoo_cfg"));
        assert!(!recipe.allows("zoo_cfg."));
        assert!(!recipe.allows("zoo_cfgx.snapCount"));
    }

    #[test]
    fn the_launcher_keeps_its_own_keys() {
        for key in ["dataDir", "dataLogDir", "clientPortAddress", "server.1", "admin.serverAddress"] {
            let mut recipe = recipe();
            recipe.zoo_cfg.insert(key.to_owned(), "x".to_owned());
            let error = recipe.check().unwrap_err().to_string();
            assert!(error.contains(&format!("zoo_cfg.{key} = x")) && error.contains("sets itself"), "{error}");
        }
    }

    #[test]
    fn no_value_smuggles_in_a_line() {
        for (key, value) in [("tickTime", "1\ndataDir=/"), ("a\nb", "1"), ("a=b", "1"), ("", "1"), ("#a", "1")] {
            let mut recipe = recipe();
            recipe.zoo_cfg.insert(key.to_owned(), value.to_owned());
            assert!(recipe.check().is_err(), "{key:?} = {value:?}");
        }
    }

    #[test]
    fn the_heap_has_bounds_and_one_place() {
        for mib in [0, 15, 65_537] {
            let error = Recipe { heap_mib: mib, ..recipe() }.check().unwrap_err().to_string();
            assert_eq!(error, format!("the recipe says heap_mib = {mib}; allowed: 16 to 65536 MiB"));
        }
        for mib in ["-1", "1e9", "'lots'", "4294967297"] {
            let error = recipe().with_settings(&settings(&format!("heap_mib = {mib}")), true).unwrap_err();
            assert!(error.to_string().contains("allowed: 16 to 65536 MiB"), "{error}");
        }
        let twice = Recipe { jvm_args: vec!["-Xmx1g".to_owned()], ..recipe() };
        assert!(twice.check().unwrap_err().to_string().contains("use heap_mib"));
    }

    #[test]
    fn an_ensemble_has_one_three_or_five_servers() {
        for nodes in [1, 3, 5] {
            let changed = recipe().with_settings(&settings(&format!("nodes = {nodes}")), true).unwrap();
            assert_eq!(changed.nodes, nodes);
        }
        for nodes in [0, 2, 4, 6, 7] {
            let error = Recipe { nodes, ..recipe() }.check().unwrap_err().to_string();
            assert_eq!(error, format!("the recipe says nodes = {nodes}; allowed: 1, 3, 5"));
        }
        for nodes in ["-3", "2", "'many'", "3.0"] {
            let error = recipe().with_settings(&settings(&format!("nodes = {nodes}")), true).unwrap_err().to_string();
            assert!(error.ends_with("; allowed: 1, 3, 5"), "{error}");
        }
        let error = recipe().with_settings(&settings("nodes = 3"), false).unwrap_err().to_string();
        assert!(error.contains("nothing: the recipe has no `allow`"), "{error}");
    }

    #[test]
    fn a_version_is_numbers_with_points() {
        for version in ["3.9.4", "3.5.10", "3.10"] {
            let changed = recipe().with_settings(&settings(&format!("version = '{version}'")), true).unwrap();
            assert_eq!(changed.version.as_deref(), Some(version));
        }
        let wrong =
            ["", ".", "..", "3", "3.", ".9", "3..4", "3.9.4/", "../3.9", "3.9.4-SNAPSHOT", "3.9 ", "3.9\n", "٣.٩"];
        for version in wrong.into_iter().chain(["1.2.3.4.5", "3.12345"]) {
            let error = Recipe { version: Some(version.to_owned()), ..recipe() }.check().unwrap_err().to_string();
            assert!(error.ends_with("; allowed: numbers with points between them, such as 3.9.4"), "{error}");
        }
    }

    #[test]
    fn the_place_of_the_metrics_is_the_launchers_where_it_puts_them_on() {
        let mut recipe = recipe();
        recipe.zoo_cfg.insert("metricsProvider.httpPort".to_owned(), "7000".to_owned());
        assert!(recipe.check().is_ok());
        recipe.version = Some("3.9.4".to_owned());
        assert!(recipe.check().unwrap_err().to_string().contains("the launcher sets itself"));
    }

    #[test]
    fn unknown_names_say_what_there_is() {
        let error = recipe().with_settings(&settings("heap = 1"), true).unwrap_err().to_string();
        let known = "allowed: heap_mib, nodes, version, jvm_args, java, java_home, zoo_cfg.KEY, system_properties.KEY";
        assert!(error.ends_with(known), "{error}");
        let error = Recipe { launcher: "ssh".to_owned(), ..recipe() }.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "the recipe says launcher = ssh for zookeeper; allowed: local for zookeeper, command for zookeeper"
        );
    }
}
