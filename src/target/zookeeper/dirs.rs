//! How much data and log of a server take on its disk, as `dirs` says it (3.5.1 and later).

use serde_json::{Map, Value};

use super::{
    server::{SRVR_WITHIN, Server},
    srvr::count,
};

/// Bytes of all snapshots, and of all transaction logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dirs {
    pub(super) data_bytes: Option<u64>,
    pub(super) log_bytes: Option<u64>,
}

/// Asks a server once: it walks through its folders for the answer. The AdminServer first, since no whitelist restricts it.
pub(super) async fn ask(server: &Server, version: &str) -> Dirs {
    if let Some(admin) = &server.admin
        && let Ok(object) = admin.ask("dirs", SRVR_WITHIN).await
    {
        return Dirs::of_json(&object, version);
    }
    server.four_letter("dirs").await.map(|text| Dirs::parse(&text, version)).unwrap_or_default()
}

impl Dirs {
    /// Reads the answer to the four-letter word.
    fn parse(text: &str, version: &str) -> Self {
        let of = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|(key, _)| key.trim() == name).and_then(|(_, value)| count(value))
        };
        Self::of(of("datadir_size"), of("logdir_size"), version)
    }

    /// Reads the answer of the AdminServer.
    fn of_json(object: &Map<String, Value>, version: &str) -> Self {
        let of = |name: &str| object.get(name).and_then(Value::as_u64);
        Self::of(of("datadir_size"), of("logdir_size"), version)
    }

    fn of(data_bytes: Option<u64>, log_bytes: Option<u64>, version: &str) -> Self {
        if swaps(version) {
            return Self { data_bytes: log_bytes, log_bytes: data_bytes };
        }
        Self { data_bytes, log_bytes }
    }
}

/// Whether a version says one for the other: all did until 3.8.4 and 3.9.2 (ZOOKEEPER-4730).
fn swaps(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let Some((major, minor)) = parts.next().zip(parts.next()) else { return false };
    let patch = parts.next().unwrap_or(0);
    let mended = match (major, minor) {
        (3, 8) => 4,
        (3, 9) => 2,
        other => return other < (3, 8),
    };
    patch < mended
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "datadir_size: 7000\nlogdir_size: 67108880\n";

    #[test]
    fn the_swap_of_old_versions_is_undone() {
        let right = Dirs { data_bytes: Some(7_000), log_bytes: Some(67_108_880) };
        let swapped = Dirs { data_bytes: right.log_bytes, log_bytes: right.data_bytes };
        for version in ["3.8.4-9316c2a7", "3.8.10", "3.9.2", "3.9.4-7246445e", "3.10.0", "4.0.0", ""] {
            assert_eq!(Dirs::parse(ANSWER, version), right, "{version}");
        }
        for version in ["3.5.10-6e4bce3", "3.6.4", "3.7.2", "3.8.0", "3.8.3-6ad6d364", "3.9.0", "3.9.1"] {
            assert_eq!(Dirs::parse(ANSWER, version), swapped, "{version}");
        }
    }

    #[test]
    fn both_doors_say_the_same() {
        let json =
            serde_json::json!({"datadir_size": 7_000, "logdir_size": 67_108_880, "command": "dirs", "error": null});
        assert_eq!(Dirs::of_json(json.as_object().unwrap(), "3.7.2"), Dirs::parse(ANSWER, "3.7.2"));
        let refused = "dirs is not executed because it is not in the whitelist.\n";
        assert_eq!(Dirs::parse(refused, "3.9.4"), Dirs::default(), "absent, not zero");
    }
}
