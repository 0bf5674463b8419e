//! The long list of a server's figures, from its Prometheus provider, from AdminServer's `monitor` or from `mntr`: one
//! form for all versions and metrics providers. Does no I/O.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::srvr::{number, whole};
use crate::sample::exposition::Figure;

/// A server's figures by name, as AdminServer writes them (`mntr` puts `zk_` before each).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    numbers: BTreeMap<String, f64>,
    texts: BTreeMap<String, String>,
}

impl Stats {
    /// Reads the answer of `mntr`: a name, a tab, a value on each line. Unknown names are kept.
    #[must_use]
    pub fn parse_mntr(text: &str) -> Self {
        let mut stats = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once('\t').or_else(|| line.rsplit_once(' ')) else { continue };
            let (name, value) = (name.trim(), value.trim());
            let name = name.strip_prefix("zk_").unwrap_or(name).to_owned();
            match number(value) {
                Some(number) => stats.numbers.insert(name, number),
                None => {
                    stats.texts.insert(name, value.to_owned());
                    None
                }
            };
        }
        stats
    }

    /// Takes the figures of `monitor`'s JSON; nested values are left out.
    #[must_use]
    pub fn of_json(object: &Map<String, Value>) -> Self {
        let mut stats = Self::default();
        for (name, value) in object {
            if let Some(number) = value.as_f64().or_else(|| value.as_str().and_then(number)) {
                stats.numbers.insert(name.clone(), number);
            } else if let Some(text) = value.as_str() {
                stats.texts.insert(name.clone(), text.to_owned());
            }
        }
        stats
    }

    /// Takes the figures of a Prometheus provider, with labels in their names as `mntr` writes them. They are named as
    /// in `monitor`.
    #[must_use]
    pub fn of_exposition(figures: &[Figure]) -> Self {
        let numbers = figures.iter().map(|figure| (figure.full_name(), figure.value)).collect();
        Self { numbers, texts: BTreeMap::new() }
    }

    /// The sum of a figure over all its labels, such as the seconds of all collectors.
    #[must_use]
    pub fn over_labels(&self, name: &str) -> Option<f64> {
        let prefix = format!("{name}{{");
        let labelled = self.numbers.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        labelled.map(|(_, value)| *value).reduce(|sum, value| sum + value)
    }

    /// A figure by its name of 3.8; older and other spellings of it are tried too.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        let older = match name {
            // Renamed in 3.6; it counts observers since then.
            "learners" => "followers",
            other => other,
        };
        let total = || self.numbers.get(&format!("{name}_total"));
        self.numbers.get(name).or_else(|| self.numbers.get(older)).or_else(total).copied()
    }

    /// As [`Stats::number`], whole; negative figures mean "not known yet" and are none.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.number(name).and_then(whole)
    }

    /// Sum and count of a summary such as `fsynctime`: `sum_NAME` and `cnt_NAME`, or `NAME_sum` and `NAME_count` where
    /// the Prometheus provider is configured.
    #[must_use]
    pub fn sum_and_count(&self, name: &str) -> Option<(f64, f64)> {
        let pair = |sum: String, count: String| Some((*self.numbers.get(&sum)?, *self.numbers.get(&count)?));
        pair(format!("sum_{name}"), format!("cnt_{name}"))
            .or_else(|| pair(format!("{name}_sum"), format!("{name}_count")))
    }

    /// A figure that is a word, such as `server_state`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// How many figures there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether nothing could be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V34: &str = "zk_version\t3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT\n\
        zk_avg_latency\t0\nzk_packets_received\t1204\nzk_num_alive_connections\t13\nzk_outstanding_requests\t0\n\
        zk_server_state\tleader\nzk_znode_count\t5081\nzk_watch_count\t18\nzk_ephemerals_count\t3\n\
        zk_approximate_data_size\t200132\nzk_open_file_descriptor_count\t44\nzk_max_file_descriptor_count\t65536\n\
        zk_followers\t2\nzk_synced_followers\t2\nzk_pending_syncs\t0\n";
    const V38: &str = "zk_version\t3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\n\
        zk_server_state\tleader\nzk_ephemerals_count\t4\nzk_num_alive_connections\t1\nzk_avg_latency\t0.2034\n\
        zk_learners\t2\nzk_znode_count\t9\nzk_global_sessions\t1\nzk_watch_count\t6\nzk_uptime\t5779\n\
        zk_last_client_response_size\t-1\nzk_cnt_fsynctime\t12\nzk_sum_fsynctime\t30\nzk_avg_fsynctime\t2.5\n";
    const PROMETHEUS: &str = "zk_znode_count\t9.0\nzk_watch_count\t6.0\nzk_fsynctime{quantile=\"0.5\"}\t2.0\n\
        zk_fsynctime{quantile=\"0.9\"}\tNaN\nzk_fsynctime_count\t12.0\nzk_fsynctime_sum\t30.0\n\
        jvm_memory_bytes_used{area=\"heap\"}\t1.2345678E7\n";

    #[test]
    fn answers_of_all_versions_and_providers_have_one_form() {
        let old = Stats::parse_mntr(V34);
        assert_eq!((old.count("znode_count"), old.count("watch_count")), (Some(5_081), Some(18)));
        assert_eq!(old.count("learners"), Some(2), "called followers until 3.6");
        assert_eq!(old.text("server_state"), Some("leader"));
        assert_eq!(old.count("global_sessions"), None);

        let new = Stats::parse_mntr(V38);
        assert_eq!((new.count("learners"), new.count("global_sessions")), (Some(2), Some(1)));
        assert_eq!(new.number("avg_latency"), Some(0.2034));
        assert_eq!(new.count("last_client_response_size"), None, "-1 is not a count");
        assert_eq!(new.sum_and_count("fsynctime"), Some((30.0, 12.0)));

        let prometheus = Stats::parse_mntr(PROMETHEUS);
        assert_eq!(prometheus.count("watch_count"), Some(6));
        assert_eq!(prometheus.sum_and_count("fsynctime"), Some((30.0, 12.0)));
        assert_eq!(prometheus.number("jvm_memory_bytes_used{area=\"heap\"}"), Some(12_345_678.0));
    }

    #[test]
    fn there_is_no_limit_of_lines() {
        let text: String = (0..2_000).map(|i| format!("zk_key_{i}\t{i}\n")).collect();
        assert_eq!(Stats::parse_mntr(&text).len(), 2_000);
    }

    #[test]
    fn monitor_gives_the_same_figures() {
        let json = r#"{"version":"3.8.0","server_state":"standalone","znode_count":5,"avg_latency":0.5,
            "cnt_fsynctime":12,"sum_fsynctime":30,"command":"monitor","error":null,"nested":{"a":1}}"#;
        let Value::Object(object) = serde_json::from_str(json).unwrap() else { panic!("an object") };
        let stats = Stats::of_json(&object);
        assert_eq!((stats.count("znode_count"), stats.number("avg_latency")), (Some(5), Some(0.5)));
        assert_eq!(stats.sum_and_count("fsynctime"), Some((30.0, 12.0)));
        assert_eq!(stats.text("server_state"), Some("standalone"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(?s).{0,400}") {
            let _ = Stats::parse_mntr(&text).count("znode_count");
        }

        #[test]
        fn what_was_written_is_read(name in "[a-z_]{1,20}", value in 0..1_000_000_u32) {
            prop_assume!(!name.starts_with("zk_"));
            let stats = Stats::parse_mntr(&format!("zk_{name}\t{value}\n"));
            prop_assert_eq!(stats.count(&name), Some(u64::from(value)));
        }
    }
}
