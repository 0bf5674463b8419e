//! Written answers in, samples and incidents out.

use super::*;

const S: i64 = 1_000_000_000;

fn value(seen: &Observation, metric: &str) -> Option<f64> {
    seen.samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
}

fn kinds(seen: &Observation) -> Vec<IncidentKind> {
    seen.incidents.iter().map(|incident| incident.kind).collect()
}

fn srvr(zxid: u64, received: u64) -> Srvr {
    Srvr { zxid: Some(zxid), received: Some(received), mode: "follower".to_owned(), ..Srvr::default() }
}

fn stats(text: &str) -> Stats {
    Stats::parse_mntr(&text.replace(' ', "\t").replace(',', "\n"))
}

#[test]
fn rates_come_with_the_second_answer() {
    let mut series = SrvrSeries::default();
    let first = series.next(0, 1.5, &srvr(0x3_0000_0010, 100));
    assert_eq!((value(&first, "srvr_ms"), value(&first, "transactions_per_s")), (Some(1.5), None));
    assert_eq!(value(&first, "znodes"), None, "absent is absent, not zero");
    let second = series.next(2 * S, 1.0, &srvr(0x3_0000_0030, 150));
    assert_eq!(value(&second, "transactions_per_s"), Some(16.0));
    assert_eq!(value(&second, "packets_in_per_s"), Some(25.0));
    assert!(second.incidents.is_empty());
}

#[test]
fn a_new_epoch_is_an_election_and_no_rate() {
    let mut series = SrvrSeries::default();
    let _ = series.next(0, 1.0, &srvr(0x3_0000_0010, 100));
    let seen = series.next(S, 1.0, &srvr(0x4_0000_0001, 110));
    assert_eq!(kinds(&seen), [IncidentKind::Election]);
    assert_eq!(value(&seen, "transactions_per_s"), None);
    let seen = series.next(2 * S, 1.0, &srvr(0x4_0000_0003, 120));
    assert_eq!((kinds(&seen), value(&seen, "transactions_per_s")), (vec![], Some(2.0)));
}

#[test]
fn a_counter_that_falls_is_a_restart_never_a_negative_rate() {
    let mut series = SrvrSeries::default();
    let _ = series.next(0, 1.0, &srvr(0x10, 100));
    let seen = series.next(S, 1.0, &srvr(0x20, 5));
    assert_eq!(kinds(&seen), [IncidentKind::Restarted]);
    assert_eq!((value(&seen, "packets_in_per_s"), value(&seen, "transactions_per_s")), (None, None));
    let seen = series.next(2 * S, 1.0, &srvr(0x22, 8));
    assert_eq!((value(&seen, "packets_in_per_s"), value(&seen, "transactions_per_s")), (Some(3.0), Some(2.0)));
}

#[test]
fn a_shorter_uptime_is_a_restart_told_once() {
    let restarts = Restarts::default();
    let mut long = StatsSeries { restarts: Arc::clone(&restarts), ..StatsSeries::default() };
    let mut short = SrvrSeries { restarts: Arc::clone(&restarts), ..SrvrSeries::default() };
    let base = 1_000 * S;
    let _ = long.next(base, 1.0, &stats("zk_uptime 500000"));
    let _ = short.next(base + 9 * S, 1.0, &srvr(1, 100));
    assert_eq!(kinds(&long.next(base + 10 * S, 1.0, &stats("zk_uptime 510000"))), []);
    assert_eq!(kinds(&long.next(base + 20 * S, 1.0, &stats("zk_uptime 3000"))), [IncidentKind::Restarted]);
    assert_eq!(kinds(&short.next(base + 21 * S, 1.0, &srvr(1, 2))), [], "told already");
    assert_eq!(kinds(&short.next(base + 30 * S, 1.0, &srvr(1, 200))), []);
    assert_eq!(kinds(&short.next(base + 40 * S, 1.0, &srvr(1, 3))), [IncidentKind::Restarted], "another one");
    assert_eq!(kinds(&long.next(base + 41 * S, 1.0, &stats("zk_uptime 2000"))), [], "told already");
}

#[test]
fn the_long_list_gives_means_and_rates_of_the_interval() {
    let mut series = StatsSeries::default();
    let first = "zk_watch_count 6,zk_ephemerals_count 4,zk_global_sessions 2,zk_bytes_received_count 1000,\
                 zk_response_bytes 500,zk_watch_bytes 100,zk_sum_fsynctime 30,zk_cnt_fsynctime 10,\
                 zk_sum_readlatency 5,zk_cnt_readlatency 100,zk_sum_updatelatency 20,zk_cnt_updatelatency 10";
    let seen = series.next(0, 12.0, &stats(first));
    let levels = ["watches", "ephemerals", "sessions", "mntr_ms"].map(|name| value(&seen, name));
    assert_eq!(levels, [Some(6.0), Some(4.0), Some(2.0), Some(12.0)]);
    assert_eq!(value(&seen, "fsync_mean_ms"), None, "a mean since the start of the server says nothing of now");
    let second = "zk_bytes_received_count 3000,zk_response_bytes 900,zk_watch_bytes 300,zk_sum_fsynctime 50,\
                  zk_cnt_fsynctime 14,zk_sum_readlatency 10,zk_cnt_readlatency 105,zk_sum_updatelatency 45,\
                  zk_cnt_updatelatency 15";
    let seen = series.next(10 * S, 12.0, &stats(second));
    let rates = ["net_in_bytes_per_s", "net_out_bytes_per_s", "fsync_mean_ms", "request_latency_ms"];
    assert_eq!(rates.map(|name| value(&seen, name)), [Some(200.0), Some(60.0), Some(5.0), Some(3.0)]);
    assert_eq!(value(&seen, "watches"), None);
}

#[test]
fn old_servers_have_no_byte_counters_and_no_zeros_for_them() {
    let mut series = StatsSeries::default();
    let _ = series.next(0, 1.0, &stats("zk_watch_count 6"));
    let seen = series.next(S, 1.0, &stats("zk_watch_count 6"));
    let names: Vec<_> = seen.samples.iter().map(|sample| sample.metric.as_str()).collect();
    assert_eq!(names, ["mntr_ms", "watches"]);
}

#[test]
fn queues_are_means_of_the_interval() {
    let mut series = StatsSeries::default();
    let _ = series.next(0, 1.0, &stats("zk_sum_sync_processor_queue_size 10,zk_cnt_sync_processor_queue_size 5"));
    let seen = series.next(S, 1.0, &stats("zk_sum_sync_processor_queue_size 70,zk_cnt_sync_processor_queue_size 15"));
    assert_eq!((value(&seen, "sync_queue"), value(&seen, "prep_queue")), (Some(6.0), None));
}

#[test]
fn a_server_without_files_tells_of_its_jvm_and_its_snapshots_itself() {
    let list = |collecting: &str, count: u32| {
        let text = format!(
            "jvm_memory_bytes_max{{area=\"heap\"}}\t6.4E7\njvm_gc_collection_seconds_sum{{gc=\"G1 Young\"}}\t{collecting}\n\
             jvm_gc_collection_seconds_sum{{gc=\"G1 Old\"}}\t1.0\nzk_cnt_snapshottime\t{count}\nzk_sum_snapshottime\t9\n"
        );
        Stats::parse_mntr(&text)
    };
    let mut series = StatsSeries::default();
    let seen = series.next(0, 1.0, &list("2.0", 7));
    assert_eq!((value(&seen, "heap_max_bytes"), value(&seen, "snapshots")), (Some(6.4e7), Some(0.0)));
    assert_eq!(value(&seen, "gc_pause_share"), None);
    let seen = series.next(10 * S, 1.0, &list("3.0", 9));
    assert_eq!((value(&seen, "gc_pause_share"), value(&seen, "snapshots")), (Some(0.1), Some(2.0)));
    let seen = series.next(20 * S, 1.0, &list("0.5", 1));
    assert_eq!((value(&seen, "gc_pause_share"), value(&seen, "snapshots")), (None, Some(3.0)), "started again");
    let seen = series.next(40 * S, 1.0, &list("0.6", 5));
    assert_eq!((value(&seen, "snapshots"), value(&seen, "snapshot_interval_s")), (Some(7.0), Some(5.0)), "4 in 20 s");
    let seen = series.next(50 * S, 1.0, &list("0.6", 5));
    assert_eq!(value(&seen, "snapshot_interval_s"), Some(5.0), "as long as no other is written");
    let seen = StatsSeries::default().next(0, 1.0, &stats("zk_approximate_data_size 5700,zk_znode_count 100"));
    assert_eq!(value(&seen, "snapshot_bytes"), Some(13_300.0));
    let mut series = StatsSeries { has_files: true, ..StatsSeries::default() };
    let seen = series.next(0, 1.0, &list("2.0", 7));
    assert_eq!((value(&seen, "heap_max_bytes"), value(&seen, "snapshots")), (None, None), "its files tell");
}

#[test]
fn a_slow_list_is_asked_for_less_often() {
    let slow = Duration::from_millis(1_001);
    let mut every = STATS_EVERY;
    let mut seen = Vec::new();
    for _ in 0..4 {
        every = next_every(every, slow);
        seen.push(every.as_secs());
    }
    assert_eq!(seen, [20, 40, 60, 60]);
    assert_eq!(next_every(every, Duration::from_millis(600)), every, "neither slow nor fast");
    for _ in 0..4 {
        every = next_every(every, Duration::from_millis(20));
    }
    assert_eq!(every, STATS_EVERY);
}
