//! A recipe of ZooKeeper as files and a command line: finds Java and ZooKeeper, writes `zoo.cfg` and the logging
//! configuration, lists the arguments. Starts nothing.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::{LaunchError, Recipe, maven, orphan::DIR_PROPERTY};
use crate::model::Setting;

/// Where Debian's package puts the server; its manifest names most of what it needs.
const DEBIAN_JAR: &str = "/usr/share/java/zookeeper.jar";
/// What the manifest of Debian's jar leaves out: without the first its AdminServer does not start, without the others
/// it logs nothing at all.
const DEBIAN_EXTRA_JARS: &[&str] =
    &["/usr/share/java/servlet-api.jar", "/usr/share/java/slf4j-log4j12.jar", "/usr/share/java/log4j-1.2.jar"];

/// Serves standalone and ensemble configurations alike, and purges snapshots as operators have it.
const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// The programs of a recipe on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) java: PathBuf,
    /// Class path entries of the server, without the folder of its configuration.
    pub(super) jars: Vec<PathBuf>,
}

/// What programs are looked for in, so that tests need not change the environment.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) java_home: Option<OsString>,
    pub(super) zookeeper_home: Option<OsString>,
    pub(super) path: Option<OsString>,
    pub(super) rampart_cache: Option<OsString>,
    pub(super) home: Option<OsString>,
}

impl Places {
    /// The variables of this process.
    pub(super) fn of_environment() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            java_home: set("JAVA_HOME"),
            zookeeper_home: set("ZOOKEEPER_HOME"),
            path: set("PATH"),
            rampart_cache: set("RAMPART_CACHE"),
            home: set("HOME"),
        }
    }
}

impl Programs {
    /// Finds Java (the recipe's, `JAVA_HOME`, `PATH`) and ZooKeeper (the recipe's version of Maven Central,
    /// `ZOOKEEPER_HOME`, Debian's package).
    pub(super) async fn find(recipe: &Recipe, places: &Places) -> Result<Self, LaunchError> {
        let java = find_java(recipe, places)?;
        let jars = match &recipe.version {
            Some(version) => maven::jars(version, places).await?,
            None => find_jars(places)?,
        };
        Ok(Self { java, jars })
    }
}

fn find_java(recipe: &Recipe, places: &Places) -> Result<PathBuf, LaunchError> {
    let missing = |text: String| LaunchError::Missing(format!("no Java: {text}"));
    if let Some(java) = &recipe.java {
        let found = if java.contains('/') { executable(Path::new(java)) } else { on_path(java, places) };
        return found.ok_or_else(|| missing(format!("the recipe's java = {java:?} is not a program here")));
    }
    if let Some(home) = &places.java_home {
        let java = Path::new(home).join("bin/java");
        return executable(&java)
            .ok_or_else(|| missing(format!("JAVA_HOME is set, but {} is not a program", java.display())));
    }
    let hint = "none on PATH; install a JRE (Debian: default-jre-headless), set JAVA_HOME or the recipe's `java`";
    on_path("java", places).ok_or_else(|| missing(hint.to_owned()))
}

pub(super) fn on_path(program: &str, places: &Places) -> Option<PathBuf> {
    std::env::split_paths(places.path.as_ref()?).find_map(|folder| executable(&folder.join(program)))
}

fn executable(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;

    let data = fs::metadata(path).ok()?;
    (data.is_file() && data.permissions().mode() & 0o111 != 0).then(|| path.to_path_buf())
}

fn find_jars(places: &Places) -> Result<Vec<PathBuf>, LaunchError> {
    if let Some(home) = &places.zookeeper_home {
        let home = Path::new(home);
        let mut jars = jars_in(&home.join("lib"), |_| true);
        // Until 3.4 the server's own jar lies in the home itself.
        jars.extend(jars_in(home, |name| name.starts_with("zookeeper")));
        if jars.iter().any(|jar| is_server_jar(jar)) {
            return Ok(jars);
        }
        let text =
            format!("no ZooKeeper: ZOOKEEPER_HOME is {}, but no zookeeper jar lies there or in lib", home.display());
        return Err(LaunchError::Missing(text));
    }
    if !Path::new(DEBIAN_JAR).is_file() {
        let text = format!(
            "no ZooKeeper: install Debian's package zookeeper ({DEBIAN_JAR}), or set ZOOKEEPER_HOME to an unpacked one"
        );
        return Err(LaunchError::Missing(text));
    }
    let extra = DEBIAN_EXTRA_JARS.iter().map(PathBuf::from).filter(|jar| jar.is_file());
    Ok(std::iter::once(PathBuf::from(DEBIAN_JAR)).chain(extra).collect())
}

pub(super) fn jars_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut jars: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.ends_with(".jar") && wanted(name)))
        .map(|entry| entry.path())
        .collect();
    // The order of a class path decides which of two like-named classes is used: keep it the same everywhere.
    jars.sort();
    jars
}

/// `zookeeper-3.9.4.jar` or `zookeeper.jar`, but not `zookeeper-jute-3.9.4.jar`.
fn is_server_jar(jar: &Path) -> bool {
    let name = jar.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix("zookeeper").is_some_and(|rest| {
        rest.is_empty()
            || rest.strip_prefix('-').is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Where the servers of an ensemble meet one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) quorum: SocketAddr,
    pub(super) election: SocketAddr,
}

/// One server of a recipe: where it lies and listens.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Its number in the ensemble, from 1.
    pub(super) id: u8,
    /// The folder of the whole target.
    pub(super) run_dir: PathBuf,
    /// The folder of this server.
    pub(super) dir: PathBuf,
    pub(super) client: SocketAddr,
    /// `None` when the recipe switches the AdminServer off.
    pub(super) admin: Option<SocketAddr>,
    /// Where its Prometheus provider listens; `None` when that is off.
    pub(super) metrics: Option<SocketAddr>,
    /// `None` when it stands alone.
    pub(super) peer: Option<Peer>,
    /// All of its ensemble by number, itself among them; empty when it stands alone.
    pub(super) peers: Vec<Peer>,
}

impl Node {
    pub(super) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub(super) fn gc_log(&self) -> PathBuf {
        self.dir.join("gc.log")
    }

    /// Every address that it binds, with what for. Only a leader binds its quorum port, but any may become one.
    pub(super) fn listens_on(&self) -> Vec<(&'static str, SocketAddr)> {
        let all = [
            ("client port", Some(self.client)),
            ("quorum port", self.peer.map(|peer| peer.quorum)),
            ("election port", self.peer.map(|peer| peer.election)),
            ("AdminServer port", self.admin),
            ("metrics port", self.metrics),
        ];
        all.into_iter().filter_map(|(what, address)| Some((what, address?))).collect()
    }

    /// Output of the process and the server's own log.
    pub(super) fn server_log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    fn zoo_cfg(&self) -> PathBuf {
        self.dir.join("zoo.cfg")
    }

    /// Writes everything that the server reads.
    pub(super) fn write_files(&self, recipe: &Recipe) -> io::Result<()> {
        fs::create_dir_all(self.data_dir())?;
        let conf = self.dir.join("conf");
        fs::create_dir_all(&conf)?;
        // 3.4 to 3.7 and Debian's 3.8.0 log by log4j, 3.8 and later by logback; each reads only its own file.
        fs::write(conf.join("log4j.properties"), LOG4J)?;
        fs::write(conf.join("logback.xml"), LOGBACK)?;
        if self.peer.is_some() {
            fs::write(self.data_dir().join("myid"), self.id.to_string())?;
        }
        fs::write(self.zoo_cfg(), zoo_cfg(recipe, self))
    }

    /// The arguments of `java`.
    pub(super) fn arguments(&self, recipe: &Recipe, programs: &Programs) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            format!("-Xmx{}m", recipe.heap_mib).into(),
            format!("-Xms{}m", recipe.heap_mib).into(),
            format!("-Xlog:gc*:file={}:time,uptime,level,tags:filecount=0", self.gc_log().display()).into(),
            format!("{DIR_PROPERTY}{}", self.run_dir.display()).into(),
        ];
        arguments.extend(recipe.system_properties.iter().map(|(key, value)| format!("-D{key}={value}").into()));
        // Last, so that a recipe can take back any of the above.
        arguments.extend(recipe.jvm_args.iter().map(OsString::from));
        let mut class_path = self.dir.join("conf").into_os_string();
        for jar in &programs.jars {
            class_path.push(":");
            class_path.push(jar);
        }
        arguments.extend(["-cp".into(), class_path, MAIN_CLASS.into(), self.zoo_cfg().into_os_string()]);
        arguments
    }
}

/// Everything at INFO to the standard output, which the launcher puts into the log beside the JVM's own messages.
const LOG4J: &str = "\
log4j.rootLogger=INFO, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{1}: %m%n
";

const LOGBACK: &str = r#"<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5p [%t] %c{1}: %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"#;

/// Whether the recipe leaves the AdminServer on, as ZooKeeper does by default.
pub(super) fn wants_admin(recipe: &Recipe) -> bool {
    let by_key = recipe.zoo_cfg.get("admin.enableServer");
    let by_property = recipe.system_properties.get("zookeeper.admin.enableServer");
    by_key.or(by_property).is_none_or(|value| value != "false")
}

const PROVIDER_KEY: &str = "metricsProvider.className";
const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// Whether the Prometheus provider is on: with a version that was fetched together with it, unless the recipe names
/// another provider.
pub(super) fn wants_metrics(recipe: &Recipe, programs: &Programs) -> bool {
    let name = |jar: &PathBuf| jar.file_name().and_then(|name| name.to_str().map(str::to_owned));
    let mut names = programs.jars.iter().filter_map(name);
    let has_it = recipe.version.is_some() && names.any(|name| name.starts_with("zookeeper-prometheus-metrics-"));
    has_it && recipe.zoo_cfg.get(PROVIDER_KEY).is_none_or(|class| class == PROMETHEUS)
}

fn zoo_cfg(recipe: &Recipe, node: &Node) -> String {
    let mut keys: Vec<(&str, String)> = vec![
        ("dataDir", node.data_dir().display().to_string()),
        ("clientPort", node.client.port().to_string()),
        ("clientPortAddress", node.client.ip().to_string()),
    ];
    match node.admin {
        Some(admin) => {
            keys.push(("admin.serverAddress", admin.ip().to_string()));
            keys.push(("admin.serverPort", admin.port().to_string()));
        }
        None => keys.push(("admin.enableServer", "false".to_owned())),
    }
    // A target of its own is for measuring: all commands answer, and one generator may hold all connections.
    if !recipe.system_properties.contains_key("zookeeper.4lw.commands.whitelist") {
        keys.push(("4lw.commands.whitelist", "*".to_owned()));
    }
    keys.push(("maxClientCnxns", "0".to_owned()));
    if let Some(metrics) = node.metrics {
        keys.push((PROVIDER_KEY, PROMETHEUS.to_owned()));
        keys.push(("metricsProvider.httpHost", metrics.ip().to_string()));
        keys.push(("metricsProvider.httpPort", metrics.port().to_string()));
    }
    if node.peer.is_some() {
        // Ensembles do not start without these two; the values are those of ZooKeeper's own sample.
        keys.push(("initLimit", "10".to_owned()));
        keys.push(("syncLimit", "5".to_owned()));
    }
    keys.retain(|(key, _)| !recipe.zoo_cfg.contains_key(*key));
    let recipes = recipe.zoo_cfg.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let mut text = keys.into_iter().chain(recipes).fold(String::new(), |mut text, (key, value)| {
        // A backslash escapes in property files, at the end of a line even the line's end.
        let _ = writeln!(text, "{key}={}", value.replace('\\', "\\\\"));
        text
    });
    for (id, Peer { quorum, election }) in (1..).zip(&node.peers) {
        let _ = writeln!(text, "server.{id}={quorum}:{}", election.port());
    }
    text
}

/// What the inventory says of a launched server.
pub(super) fn settings(recipe: &Recipe, programs: &Programs) -> Vec<Setting> {
    let setting = |name: String, value: String| Setting { name, value, source: "launch recipe".to_owned() };
    let mut settings = vec![
        setting("nodes".to_owned(), recipe.nodes.to_string()),
        setting("heap_mib".to_owned(), recipe.heap_mib.to_string()),
        setting("jvm_args".to_owned(), recipe.jvm_args.join(" ")),
        setting("java".to_owned(), programs.java.display().to_string()),
    ];
    settings.extend(recipe.version.iter().map(|version| setting("version".to_owned(), version.clone())));
    // It costs the server some of its speed.
    if wants_metrics(recipe, programs) && !recipe.zoo_cfg.contains_key(PROVIDER_KEY) {
        settings.push(setting(format!("zoo_cfg.{PROVIDER_KEY}"), PROMETHEUS.to_owned()));
    }
    settings.extend(recipe.zoo_cfg.iter().map(|(key, value)| setting(format!("zoo_cfg.{key}"), value.clone())));
    let properties = recipe.system_properties.iter();
    settings.extend(properties.map(|(key, value)| setting(format!("system_properties.{key}"), value.clone())));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Node {
            id: 1,
            run_dir: "/r".into(),
            dir: "/r/1".into(),
            client: address(21_000),
            admin: Some(address(21_001)),
            metrics: None,
            peer: None,
            peers: Vec::new(),
        }
    }

    #[test]
    fn servers_of_an_ensemble_know_each_other() {
        let peer = |id, port| Peer {
            quorum: SocketAddr::from(([127, 0, 0, id], port)),
            election: SocketAddr::from(([127, 0, 0, id], port + 1)),
        };
        let peers = vec![peer(1, 22_000), peer(2, 23_000), peer(3, 24_000)];
        let node = Node { id: 2, peer: Some(peers[1]), peers, ..node() };
        let mut recipe = Recipe { nodes: 3, ..Recipe::new("zookeeper") };
        recipe.zoo_cfg.insert("syncLimit".to_owned(), "2".to_owned());
        let text = zoo_cfg(&recipe, &node);
        let end = "initLimit=10\nsyncLimit=2\nserver.1=127.0.0.1:22000:22001\nserver.2=127.0.0.2:23000:23001\n\
                   server.3=127.0.0.3:24000:24001\n";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(text.matches("syncLimit").count(), 1);
        let used = node.listens_on();
        assert_eq!(
            used.iter().map(|(what, _)| *what).collect::<Vec<_>>(),
            ["client port", "quorum port", "election port", "AdminServer port"]
        );
    }

    #[test]
    fn metrics_are_on_with_a_version_that_has_them_unless_the_recipe_says_otherwise() {
        let mut recipe = Recipe::new("zookeeper");
        let mut programs =
            Programs { java: "/java".into(), jars: vec!["/l/zookeeper-prometheus-metrics-3.9.4.jar".into()] };
        assert!(!wants_metrics(&recipe, &programs), "an installed one is as its owner has it");
        recipe.version = Some("3.9.4".to_owned());
        assert!(wants_metrics(&recipe, &programs));
        let node = Node { metrics: Some(SocketAddr::from(([127, 0, 0, 1], 25_000))), ..node() };
        let text = zoo_cfg(&recipe, &node);
        assert!(text.contains("\nmetricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=25000\n"), "{text}");
        recipe
            .zoo_cfg
            .insert(PROVIDER_KEY.to_owned(), "org.apache.zookeeper.metrics.impl.NullMetricsProvider".to_owned());
        assert!(!wants_metrics(&recipe, &programs));
        recipe.zoo_cfg.clear();
        programs.jars.clear();
        assert!(!wants_metrics(&recipe, &programs));
    }

    #[test]
    fn zoo_cfg_is_open_for_measuring_unless_the_recipe_says_otherwise() {
        let mut recipe = Recipe::new("zookeeper");
        let text = zoo_cfg(&recipe, &node());
        assert_eq!(
            text,
            "dataDir=/r/1/data\nclientPort=21000\nclientPortAddress=127.0.0.1\nadmin.serverAddress=127.0.0.1\n\
             admin.serverPort=21001\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n"
        );
        recipe.zoo_cfg.insert("4lw.commands.whitelist".to_owned(), "ruok".to_owned());
        recipe.zoo_cfg.insert("maxClientCnxns".to_owned(), "60".to_owned());
        let text = zoo_cfg(&recipe, &node());
        assert_eq!(text.matches("whitelist").count(), 1);
        assert!(text.contains("\n4lw.commands.whitelist=ruok\n") && text.contains("\nmaxClientCnxns=60\n"), "{text}");
    }

    #[test]
    fn a_value_ends_where_its_line_ends() {
        let mut recipe = Recipe::new("zookeeper");
        recipe.zoo_cfg.insert("a".to_owned(), "x\\".to_owned());
        assert!(zoo_cfg(&recipe, &node()).ends_with("\na=x\\\\\n"));
    }

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let nowhere = Places { path: Some("/nonexistent".into()), ..Places::default() };
        let error = find_java(&Recipe::new("zookeeper"), &nowhere).unwrap_err().to_string();
        assert!(error.starts_with("no Java") && error.contains("JAVA_HOME"), "{error}");
        let recipe = Recipe { java: Some("/nonexistent/java".to_owned()), ..Recipe::new("zookeeper") };
        let error = find_java(&recipe, &Places::of_environment()).unwrap_err().to_string();
        assert_eq!(error, "no Java: the recipe's java = \"/nonexistent/java\" is not a program here");
        let home = tempfile::tempdir().unwrap();
        let places = Places { zookeeper_home: Some(home.path().into()), ..Places::default() };
        let error = find_jars(&places).unwrap_err().to_string();
        assert!(error.starts_with("no ZooKeeper") && error.contains("ZOOKEEPER_HOME"), "{error}");
    }

    #[test]
    fn a_home_gives_its_jars_of_old_and_new_layouts() {
        for (server, lib) in [("zookeeper-3.4.14.jar", "lib/slf4j.jar"), ("lib/zookeeper-3.9.4.jar", "lib/a.jar")] {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join("lib")).unwrap();
            for jar in [server, lib, "lib/zookeeper-jute-3.9.4.jar", "README"] {
                fs::write(home.path().join(jar), "").unwrap();
            }
            let places = Places { zookeeper_home: Some(home.path().into()), ..Places::default() };
            let jars = find_jars(&places).unwrap();
            assert!(jars.contains(&home.path().join(server)) && jars.contains(&home.path().join(lib)), "{jars:?}");
            fs::remove_file(home.path().join(server)).unwrap();
            assert!(find_jars(&places).is_err(), "jute alone is no server");
        }
    }
}
