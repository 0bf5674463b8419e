//! Arrows between modules point one way. A change of this table is a visible line in a review.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What each module may use. `cli` is left out: it may use everything, and nothing may use it.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("analysis", &["model"]),
    ("sample", &["model"]),
    ("target", &["model", "sample"]),
    ("launch", &["model", "target"]),
    ("config", &["launch", "model", "target"]),
    ("workload", &["config", "model", "target"]),
    ("scenario", &["analysis", "config", "launch", "model", "target", "workload"]),
    ("engine", &["analysis", "launch", "model", "sample", "scenario", "target", "workload"]),
    ("store", &["model", "scenario"]),
    ("report", &["model", "store"]),
    ("runs", &["config", "engine", "launch", "model", "sample", "scenario", "store", "target"]),
    ("web", &["config", "model", "report", "runs", "scenario", "store", "target"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The code of a file without its tests and comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules that a text names behind `crate::`, in paths and in braces.
fn used(code: &str) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    for rest in code.split("crate::").skip(1) {
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut name, mut names) = (0, String::new(), Vec::new());
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(std::mem::take(&mut name)),
                    _ if depth == 0 => name.push(c),
                    _ => {}
                }
            }
            names.push(name);
            modules.extend(names.iter().map(|name| word(name.trim())).filter(|name| !name.is_empty()));
        } else {
            modules.insert(word(rest));
        }
    }
    modules
}

#[test]
fn arrows_between_modules_point_one_way() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (module, may_use) in &allowed {
        let mut files = Vec::new();
        rust_files(&root().join("src").join(module), &mut files);
        for file in files {
            for name in used(&code(&file)) {
                // Items of the crate's root are macros and re-exports, not modules.
                if name == *module || (!allowed.contains_key(name.as_str()) && name != "cli") {
                    continue;
                }
                assert!(may_use.contains(name.as_str()), "{} uses {name}, which {module} may not", file.display());
                found.entry(module).or_default().insert(name);
            }
        }
    }
    // An arrow that nobody needs any more must go, or the table says less than it seems to.
    for (module, may_use) in &allowed {
        for name in may_use {
            assert!(
                found.get(module).is_some_and(|names| names.contains(*name)),
                "{module} may use {name}, but does not"
            );
        }
    }
}

#[test]
fn every_module_of_the_crate_has_its_arrows() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let modules: BTreeSet<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let mut named: BTreeSet<&str> = ARROWS.iter().map(|(module, _)| *module).collect();
    named.insert("cli");
    assert_eq!(modules, named);
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let mut files = Vec::new();
    for folder in ["src", "crates"] {
        rust_files(&root().join(folder), &mut files);
    }
    let long: Vec<String> = files
        .iter()
        .filter_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
            (lines > 400 && !path.components().any(|part| part.as_os_str() == "tests"))
                .then(|| format!("{lines} {}", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "over 400 lines before their tests: {long:#?}");
}

#[test]
fn the_wire_client_knows_nothing_of_load_testing() {
    let manifest = fs::read_to_string(root().join("crates/zk-wire/Cargo.toml")).unwrap();
    assert!(!manifest.contains("rampart"), "zk-wire must stand alone");
}
