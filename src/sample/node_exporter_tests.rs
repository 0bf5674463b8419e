//! Texts of two versions in (1.5.0 as recorded; 0.15.2 in its form, with round figures), samples and facts out.

use super::*;

const S: i64 = 1_000_000_000;
const NEW: &str = include_str!("recorded/node_exporter-1.5.0.txt");
const OLD: &str = include_str!("recorded/node_exporter-0.15.2.txt");

fn value(samples: &[Sample], metric: &str) -> Option<f64> {
    samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
}

/// Two answers, the second with some figures changed; the samples of the second.
fn second(text: &str, changes: &[(&str, &str)]) -> Vec<Sample> {
    let mut series = HostSeries::default();
    let first = series.next(0, "a:1", &parse(text), None);
    assert!(first.iter().all(|sample| sample.metric == "host_memory_bytes" || sample.metric == "host_disk_free_bytes"));
    let changed = changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no {from}");
        text.replace(from, to)
    });
    series.next(10 * S, "a:1", &parse(&changed), None)
}

#[test]
fn the_names_of_before_0_16_are_read() {
    let changes = [
        ("node_cpu{cpu=\"cpu0\",mode=\"user\"} 200", "node_cpu{cpu=\"cpu0\",mode=\"user\"} 205"),
        ("node_cpu{cpu=\"cpu0\",mode=\"guest\"} 12", "node_cpu{cpu=\"cpu0\",mode=\"guest\"} 17"),
        ("node_cpu{cpu=\"cpu1\",mode=\"idle\"} 900", "node_cpu{cpu=\"cpu1\",mode=\"idle\"} 910"),
        ("node_cpu{cpu=\"cpu0\",mode=\"steal\"} 10", "node_cpu{cpu=\"cpu0\",mode=\"steal\"} 15"),
        ("node_disk_bytes_written{device=\"sda\"} 9e+09", "node_disk_bytes_written{device=\"sda\"} 9.5e+09"),
        ("node_disk_bytes_written{device=\"dm-0\"} 9e+09", "node_disk_bytes_written{device=\"dm-0\"} 9.5e+09"),
        ("receive_bytes{device=\"eth1\"} 3e+09", "receive_bytes{device=\"eth1\"} 3.1e+09"),
        ("receive_bytes{device=\"bond0\"} 7e+09", "receive_bytes{device=\"bond0\"} 7.1e+09"),
        ("receive_bytes{device=\"lo\"} 8e+09", "receive_bytes{device=\"lo\"} 9e+09"),
    ];
    let samples = second(OLD, &changes);
    // 5 s of user time of 20 s; guest time is part of it, stolen time is nobody's.
    assert_eq!(value(&samples, "host_cpu_share"), Some(0.25));
    assert_eq!(value(&samples, "host_memory_bytes"), Some(1e9));
    assert_eq!(value(&samples, "host_disk_write_bytes_per_s"), Some(5e7), "dm-0 lies on sda");
    assert_eq!(value(&samples, "host_disk_read_bytes_per_s"), Some(0.0));
    assert_eq!(
        value(&samples, "host_net_in_bytes_per_s"),
        Some(1e7),
        "bond0 is eth0 and eth1, lo never leaves the host"
    );
    assert_eq!(value(&samples, "host_disk_free_bytes"), Some(2e10), "neither /boot nor memory");
    assert_eq!(samples.len(), 7, "{samples:?}");
}

#[test]
fn the_names_of_today_are_read() {
    let changes = [
        ("mode=\"user\"} 3238.69", "mode=\"user\"} 3243.69"),
        (
            "node_cpu_seconds_total{cpu=\"1\",mode=\"idle\"} 5967.14",
            "node_cpu_seconds_total{cpu=\"1\",mode=\"idle\"} 5982.14",
        ),
        (
            "written_bytes_total{device=\"vda\"} 1.71106738176e+11",
            "written_bytes_total{device=\"vda\"} 1.71206738176e+11",
        ),
        ("transmit_bytes_total{device=\"eth0\"} 2.77605e+06", "transmit_bytes_total{device=\"eth0\"} 3.77605e+06"),
    ];
    let samples = second(NEW, &changes);
    let share = value(&samples, "host_cpu_share").unwrap();
    assert!((share - 0.25).abs() < 1e-6, "{share}");
    assert_eq!(value(&samples, "host_disk_write_bytes_per_s"), Some(1e7));
    assert_eq!(value(&samples, "host_net_out_bytes_per_s"), Some(1e5));
    assert_eq!(value(&samples, "host_memory_bytes"), Some(25_276_510_208.0 - 24_388_485_120.0));
    assert_eq!(samples.len(), 7, "{samples:?}");
}

#[test]
fn a_counter_that_went_back_gives_no_rate() {
    let samples = second(OLD, &[("written{device=\"sda\"} 9e+09", "written{device=\"sda\"} 1e+09")]);
    assert_eq!(value(&samples, "host_disk_write_bytes_per_s"), None);
    assert!(samples.iter().all(|sample| sample.value >= 0.0), "{samples:?}");
}

#[test]
fn counters_of_another_boot_are_no_continuation() {
    let changes = [
        ("node_boot_time 1.519730115e+09", "node_boot_time 1.519830115e+09"),
        ("written{device=\"sda\"} 9e+09", "written{device=\"sda\"} 9.9e+09"),
    ];
    let samples = second(OLD, &changes);
    let names: Vec<_> = samples.iter().map(|sample| sample.metric.as_str()).collect();
    assert_eq!(names, ["host_memory_bytes", "host_disk_free_bytes"]);
}

#[test]
fn the_file_system_of_the_data_is_the_one_that_counts() {
    let figures = parse(OLD);
    assert_eq!(disk_free(&figures, Some("/data/zk/version-2")), Some(3e11));
    assert_eq!(disk_free(&figures, Some("/database")), Some(2e10), "/data is no beginning of it");
    assert_eq!(disk_free(&figures, Some("/data")), Some(3e11));
    assert_eq!(disk_free(&parse("up 1\n"), Some("/data")), None);
}

#[test]
fn what_a_host_is_is_told_by_both() {
    let new = facts(&parse(NEW));
    assert_eq!((new.cpu.as_deref(), new.cores), (Some("AMD EPYC"), Some(2)));
    assert_eq!(new.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!(
        (new.kernel.as_deref(), new.network_mbit_per_s),
        (Some("6.18.44-fc-v657"), None),
        "a card without a speed"
    );
    let old = facts(&parse(OLD));
    assert_eq!((old.name.as_deref(), old.cores, old.memory_bytes), (Some("zk-7"), Some(2), Some(16_000_000_000)));
    assert_eq!((old.cpu, old.os.as_deref()), (None, Some("Linux")), "0.15 does not tell the model");
}

#[test]
fn what_is_not_told_is_absent() {
    let mut series = HostSeries::default();
    assert_eq!(series.next(0, "a", &parse("up 1\n"), None), []);
    assert_eq!(series.next(S, "a", &parse("<html>nothing</html>"), None), []);
    assert_eq!(facts(&[]), HostFacts::default());
}
