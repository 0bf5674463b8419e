//! Versions of ZooKeeper from Maven Central, fetched once by the `mvn` of this machine into a folder of the user's cache.
//! What lies there is whole, so that later starts need no network and no Maven.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{process::Command, sync::Mutex, time::timeout};

use super::{
    LaunchError,
    zookeeper::{Places, jars_in, on_path},
};

const FETCH_WITHIN: Duration = Duration::from_secs(600);
/// Lines of Maven's output that an error quotes.
const QUOTED_LINES: usize = 20;
/// One fetch at a time: two of one version would be one too many, and Maven's own repository is not made for it.
static FETCHING: Mutex<()> = Mutex::const_new(());

/// What ZooKeeper's own POM leaves to whoever runs it: its AdminServer, its metrics, its compression and a logger that
/// works with every version's calls.
const BESIDE: &[(&str, &str, &str)] = &[
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.eclipse.jetty", "jetty-server", "9.4.57.v20241219"),
    ("org.eclipse.jetty", "jetty-servlet", "9.4.57.v20241219"),
    ("com.fasterxml.jackson.core", "jackson-databind", "2.15.2"),
    ("commons-cli", "commons-cli", "1.5.0"),
    ("org.slf4j", "slf4j-api", "2.0.13"),
    ("ch.qos.logback", "logback-classic", "1.3.15"),
    // Named too, since some versions of ZooKeeper name an older one of it.
    ("ch.qos.logback", "logback-core", "1.3.15"),
];

/// Whether a version's Prometheus provider can be told to listen on loopback only; earlier ones listen everywhere.
fn has_prometheus(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) >= (3, 8)
}

/// The class path of a version, fetched unless it is there. The version has passed the recipe's check.
pub(super) async fn jars(version: &str, places: &Places) -> Result<Vec<PathBuf>, LaunchError> {
    let versions = cache(places)?.join("zookeeper");
    let folder = versions.join(version);
    if !is_whole(&folder, version) {
        let _one = FETCHING.lock().await;
        if !is_whole(&folder, version) {
            fetch(version, places, &versions, &folder).await?;
        }
    }
    Ok(jars_in(&folder, |_| true))
}

fn cache(places: &Places) -> Result<PathBuf, LaunchError> {
    if let Some(cache) = &places.rampart_cache {
        return Ok(PathBuf::from(cache));
    }
    let home = places.home.as_ref().map(|home| Path::new(home).join(".cache/rampart"));
    let hint = "no folder for fetched versions: neither RAMPART_CACHE nor HOME is set";
    home.ok_or_else(|| LaunchError::Missing(hint.to_owned()))
}

/// A folder comes into its place as a whole; this is for one that somebody else made.
fn is_whole(folder: &Path, version: &str) -> bool {
    folder.join(format!("zookeeper-{version}.jar")).is_file()
}

async fn fetch(version: &str, places: &Places, versions: &Path, folder: &Path) -> Result<(), LaunchError> {
    let refused = |text: String| LaunchError::Missing(format!("no ZooKeeper {version}: {text}"));
    let io = |what: &str, source: io::Error| LaunchError::Io { what: what.to_owned(), source };
    let Some(mvn) = on_path("mvn", places) else {
        let hint = "it is fetched by Maven, but there is no mvn on PATH; install it (Debian: maven), or leave `version` \
                    out for ZOOKEEPER_HOME or Debian's package";
        return Err(refused(hint.to_owned()));
    };
    tracing::info!("fetching ZooKeeper {version} from Maven Central into {}", folder.display());
    let mut provider = has_prometheus(version);
    let (part, lib) = loop {
        let part = Part::create(versions, version).map_err(|error| io("making a folder for a version", error))?;
        let lib = part.0.join("lib");
        fs::write(part.0.join("pom.xml"), pom_of(version, provider)).map_err(|error| io("writing a POM", error))?;
        let output = copy_dependencies(&mvn, &part.0, &lib);
        let output = match timeout(FETCH_WITHIN, output).await {
            Ok(output) => output.map_err(|error| io(&format!("running {}", mvn.display()), error))?,
            Err(_elapsed) => {
                return Err(refused(format!("{} did not end within {} s", mvn.display(), FETCH_WITHIN.as_secs())));
            }
        };
        if output.status.success() && is_whole(&lib, version) {
            break (part, lib);
        }
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if !provider || !lacks_provider(&said) {
            let said = last_lines(&said);
            return Err(refused(format!("{} could not fetch it ({}):\n{said}", mvn.display(), output.status)));
        }
        tracing::warn!("Maven Central has no Prometheus provider for ZooKeeper {version}: fetching it without");
        provider = false;
    };
    let moved = match fs::rename(&lib, folder) {
        // Another process was faster.
        Err(_) if is_whole(folder, version) => Ok(()),
        Err(error) => Err(io(&format!("putting the version into {}", folder.display()), error)),
        Ok(()) => Ok(()),
    };
    drop(part);
    moved
}

async fn copy_dependencies(mvn: &Path, folder: &Path, lib: &Path) -> io::Result<std::process::Output> {
    Command::new(mvn)
        // Without -U what was not found once is not looked for again until the next day.
        .args(["-q", "-B", "-U", "-f"])
        .arg(folder.join("pom.xml"))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", lib.display()))
        .current_dir(folder)
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .output()
        .await
}

/// Whether Maven says that the provider, and nothing before it, does not exist: a lost connection sounds otherwise.
fn lacks_provider(said: &str) -> bool {
    ["Could not find artifact ", "resolve dependencies for project rampart:target:pom:1: "].iter().any(|before| {
        let rest = said.split(before).nth(1).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        line.starts_with("org.apache.zookeeper:zookeeper-prometheus-metrics:")
            && (before.starts_with("Could not find") || line.contains("was not found in"))
    })
}

/// A folder beside the versions in which one is put together; removed on every way out.
struct Part(PathBuf);

impl Part {
    fn create(versions: &Path, version: &str) -> io::Result<Self> {
        fs::create_dir_all(versions)?;
        let path = versions.join(format!(".{version}.{}", uuid::Uuid::now_v7().simple()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The end of Maven's words, without its colours and its advice.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !matches!(line.trim(), "" | "[ERROR]")).collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
}

fn pom_of(version: &str, provider: bool) -> String {
    let mut wanted = vec![("org.apache.zookeeper", "zookeeper", version)];
    if provider {
        wanted.push(("org.apache.zookeeper", "zookeeper-prometheus-metrics", version));
    }
    let wanted = wanted.iter().chain(BESIDE);
    let dependencies: String = wanted
        .map(|(group, artifact, version)| {
            format!(
                "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
                 <version>{version}</version></dependency>\n"
            )
        })
        .collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n<modelVersion>4.0.0</modelVersion>\n\
         <groupId>rampart</groupId><artifactId>target</artifactId><version>1</version><packaging>pom</packaging>\n\
         <dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache, and a `mvn` of its own that runs `script` with `$lib` as the folder it was asked to fill.
    struct Stand {
        folder: tempfile::TempDir,
        places: Places,
    }

    impl Stand {
        fn new(script: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let mvn =
                format!("#!/bin/sh\nfor a; do case $a in -DoutputDirectory=*) lib=${{a#*=}};; esac; done\n{script}\n");
            // Written by another process: a file that this one holds open for writing while any of its threads forks
            // cannot be run.
            let mut writer = std::process::Command::new("sh");
            writer.args(["-c", "printf %s \"$1\" > mvn && chmod +x mvn", "sh", &mvn]).current_dir(folder.path());
            assert!(writer.status().unwrap().success());
            let places = Places {
                path: Some(folder.path().into()),
                rampart_cache: Some(folder.path().join("cache").into()),
                ..Places::default()
            };
            Self { folder, places }
        }

        fn entries(&self) -> Vec<String> {
            let entries = fs::read_dir(self.folder.path().join("cache/zookeeper")).into_iter().flatten();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    const GOOD: &str = "mkdir $lib && : > $lib/zookeeper-3.9.4.jar && : > $lib/a.jar && echo . >> ${0%/*}/runs";

    #[tokio::test]
    async fn a_version_is_fetched_once_and_used_without_maven_later() {
        let stand = Stand::new(&format!("PATH=/bin:/usr/bin; {GOOD}"));
        let first = tokio::join!(jars("3.9.4", &stand.places), jars("3.9.4", &stand.places));
        let folder = stand.folder.path().join("cache/zookeeper/3.9.4");
        let expected = vec![folder.join("a.jar"), folder.join("zookeeper-3.9.4.jar")];
        assert_eq!((first.0.unwrap(), first.1.unwrap()), (expected.clone(), expected.clone()));
        assert_eq!(fs::read_to_string(stand.folder.path().join("runs")).unwrap(), ".\n", "two asked, one fetched");
        fs::remove_file(stand.folder.path().join("mvn")).unwrap();
        assert_eq!(jars("3.9.4", &stand.places).await.unwrap(), expected);
        assert_eq!(stand.entries(), ["3.9.4"], "nothing else is left");
    }

    #[tokio::test]
    async fn what_maven_refuses_is_quoted_and_leaves_nothing() {
        let stand =
            Stand::new("PATH=/bin:/usr/bin; mkdir $lib; : > $lib/a.jar; echo '[ERROR] no such artifact'; exit 1");
        let error = jars("3.9.4", &stand.places).await.unwrap_err().to_string();
        assert!(error.starts_with("no ZooKeeper 3.9.4: ") && error.ends_with("[ERROR] no such artifact"), "{error}");
        assert_eq!(stand.entries(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_fetch_without_the_server_is_none() {
        let stand = Stand::new("PATH=/bin:/usr/bin; mkdir $lib; : > $lib/zookeeper-jute-3.9.4.jar");
        assert!(jars("3.9.4", &stand.places).await.is_err());
        assert_eq!(stand.entries(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_version_without_its_provider_is_fetched_without() {
        let lacking = "[ERROR] Failed to execute goal on project target: Could not resolve dependencies for project \
                       rampart:target:pom:1: Could not find artifact \
                       org.apache.zookeeper:zookeeper-prometheus-metrics:jar:3.9.4 in central (https://...)";
        let script =
            format!("PATH=/bin:/usr/bin; if grep -q prometheus pom.xml; then echo '{lacking}'; exit 1; fi; {GOOD}");
        let stand = Stand::new(&script);
        assert_eq!(jars("3.9.4", &stand.places).await.unwrap().len(), 2);
        assert_eq!(stand.entries(), ["3.9.4"]);

        let lost = lacking.replace("find artifact", "transfer artifact");
        assert!(lacks_provider(lacking) && !lacks_provider(&lost));
        assert!(!lacks_provider(&lacking.replace("zookeeper-prometheus-metrics", "zookeeper")));
        let known = lacking.replace("Could not find artifact ", "").replace(" in central", " was not found in central");
        assert!(lacks_provider(&known) && !lacks_provider(&known.replace("not found", "lost")));
    }

    #[tokio::test]
    async fn a_missing_maven_is_said_with_what_to_do() {
        let stand = Stand::new("");
        let places = Places { path: Some("/nonexistent".into()), ..stand.places };
        let error = jars("3.9.4", &places).await.unwrap_err().to_string();
        assert!(error.contains("no mvn on PATH") && error.contains("leave `version` out"), "{error}");
    }

    #[test]
    fn the_cache_is_the_users_unless_a_place_is_named() {
        let home = Places { home: Some("/home/a".into()), ..Places::default() };
        assert_eq!(cache(&home).unwrap(), Path::new("/home/a/.cache/rampart"));
        let named = Places { rampart_cache: Some("/c".into()), ..home };
        assert_eq!(cache(&named).unwrap(), Path::new("/c"));
        assert!(cache(&Places::default()).is_err());
    }

    #[test]
    fn old_versions_come_without_the_provider() {
        assert!(!has_prometheus("3.7.2") && !pom_of("3.7.2", false).contains("prometheus"));
        assert!(has_prometheus("3.10.0"));
        assert!(
            pom_of("3.10.0", true).contains("<artifactId>zookeeper-prometheus-metrics</artifactId><version>3.10.0<")
        );
    }
}
