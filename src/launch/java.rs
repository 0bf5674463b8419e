//! The Java runtimes that are installed on this machine.

use std::{collections::BTreeSet, fs, path::Path};

/// Where Debian and others install runtimes, one folder each.
const FOLDER: &str = "/usr/lib/jvm";

/// One runtime.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstalledJava {
    /// Maker and version, such as `Debian 17.0.15`; the folder's name where the runtime does not say.
    pub label: String,
    /// Its `java`.
    pub path: String,
}

/// All runtimes under `/usr/lib/jvm`, each once however many links lead to it, by name.
#[must_use]
pub fn installed() -> Vec<InstalledJava> {
    under(Path::new(FOLDER))
}

fn under(folder: &Path) -> Vec<InstalledJava> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let homes: BTreeSet<_> = entries.flatten().filter_map(|entry| entry.path().canonicalize().ok()).collect();
    let mut all: Vec<InstalledJava> = homes
        .iter()
        .filter_map(|home| {
            let java = home.join("bin/java");
            let name = home.file_name()?.to_string_lossy();
            java.is_file().then(|| InstalledJava {
                label: fs::read_to_string(home.join("release"))
                    .ok()
                    .and_then(|text| label(&text))
                    .unwrap_or(name.into()),
                path: java.display().to_string(),
            })
        })
        .collect();
    all.sort();
    all
}

/// What the file `release` of a runtime says: `KEY="value"` lines (JEP 223 and 322).
fn label(release: &str) -> Option<String> {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"')).filter(|value| !value.is_empty())
    };
    match (value("IMPLEMENTOR_VERSION"), value("IMPLEMENTOR"), value("JAVA_VERSION")) {
        (Some(whole), ..) => Some(whole.to_owned()),
        (None, Some(maker), Some(version)) => Some(format!("{maker} {version}")),
        (None, _, version) => version.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_runtime_is_found_once_with_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = |name: &str, release: Option<&str>| {
            let home = dir.path().join(name);
            fs::create_dir_all(home.join("bin")).unwrap();
            fs::write(home.join("bin/java"), "").unwrap();
            if let Some(text) = release {
                fs::write(home.join("release"), text).unwrap();
            }
        };
        runtime(
            "java-17",
            Some("IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\nJAVA_VERSION_DATE=\"2025-04-15\"\n"),
        );
        runtime("t25", Some("IMPLEMENTOR=\"Eclipse Adoptium\"\nIMPLEMENTOR_VERSION=\"Temurin-25.0.3+9\"\n"));
        runtime("bare", None);
        fs::create_dir_all(dir.path().join("no-runtime")).unwrap();
        symlink(dir.path().join("java-17"), dir.path().join("default-java")).unwrap();
        let labels: Vec<_> = under(dir.path()).into_iter().map(|java| java.label).collect();
        assert_eq!(labels, ["Debian 17.0.15", "Temurin-25.0.3+9", "bare"]);
        assert!(under(&dir.path().join("nowhere")).is_empty());
    }
}
