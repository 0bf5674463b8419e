//! Guards on a real server that the run did not launch: what trips one takes the load off at once and removes everything.

use std::time::{Duration, Instant};

use rampart::model::{Phase, RunEvent, Status, StopCode, Verdict};

use crate::{
    engine_run::{Proxy, Run, SMALL, alone, config, counts, scenario, until_counts},
    zookeeper::Server,
};

const LEVELS: &str = "kind = \"levels\"\nlevels = [2, 30]\nsettle_s = 2\nmeasure_s = 20\n";

fn guarded(guards: &str) -> String {
    let options = SMALL.replace("fill_per_s = 20", "fill_per_s = 5");
    scenario("use = \"zk\"", LEVELS, &options, &format!("[guards]\n{guards}\n"))
}

fn assert_tripped(verdict: &Verdict, parts: &[&str]) {
    let ended = (verdict.status, verdict.stop_code, verdict.exit_code);
    assert_eq!(ended, (Status::Aborted, StopCode::SafetyAbort, 8), "{}", verdict.sentence);
    for part in parts {
        assert!(verdict.sentence.contains(part), "{part:?} is missing in {:?}", verdict.sentence);
    }
}

/// When the run began to clean up, against when its load was gone.
async fn stops_at_once(run: &mut Run, server: &Server) {
    run.until(|event| matches!(event, RunEvent::Phase { phase: Phase::Cleaning, .. }).then_some(())).await;
    let since = Instant::now();
    // The sampler's, the lease's and this question's are left.
    until_counts(server.addr, "num_alive_connections", |count| count <= 6).await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_too_full_stops_a_run_while_it_fills() {
    let _alone = alone().await;
    let server = Server::start("", &[]);
    // No disk has so much left.
    let mut run = Run::start(&guarded("disk_free_bytes = { limit = 1e15, for_s = 2 }"), &config(server.addr, ""));
    stops_at_once(&mut run, &server).await;
    let verdict = run.verdict().await;
    let said = ["A guard stopped the run: ", " MiB of disk left, less than the ", "of the guard disk_free_bytes"];
    assert_tripped(&verdict, &said);
    assert_eq!(counts(server.addr).await["znode_count"], 5, "the root is removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_the_canary_stops_the_run() {
    let _alone = alone().await;
    let server = Server::start("", &[]);
    let text = guarded("canary_ms = { limit = 200, for_s = 1 }\ndisk_free_bytes = false");
    let mut run = Run::start(&text, &config(server.addr, ""));
    run.phase(Phase::Measuring, 1).await;
    // Reads take as long as each of these spells: never so long that the run takes the server for gone.
    let pid = run.seen.iter().find_map(|event| {
        let RunEvent::Inventory { inventory, .. } = event else { return None };
        inventory.nodes[0].pid
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid.unwrap()).unwrap());
    let signal = |signal| nix::sys::signal::kill(pid, signal).unwrap();
    let pauses = async {
        loop {
            signal(nix::sys::signal::Signal::SIGSTOP);
            tokio::time::sleep(Duration::from_millis(700)).await;
            signal(nix::sys::signal::Signal::SIGCONT);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let cleaning = run.until(|event| matches!(event, RunEvent::Phase { phase: Phase::Cleaning, .. }).then_some(()));
    tokio::select! {
        () = pauses => {}
        () = cleaning => {}
    }
    signal(nix::sys::signal::Signal::SIGCONT);
    assert_tripped(
        &run.verdict().await,
        &["a read of a client of its own took ", "above the 200 ms of the guard canary_ms"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_others_that_the_load_drives_out_stop_the_run() {
    let _alone = alone().await;
    let server = Server::start("", &[]);
    let others = zk_clients(&server, 12);
    let mut run = Run::start(&guarded("others_lost = { limit = 3, for_s = 2 }"), &config(server.addr, ""));
    run.phase(Phase::Measuring, 1).await;
    drop(others);
    let verdict = run.verdict().await;
    assert_tripped(&verdict, &["other clients had ", "connections fewer than before the load, above the 3"]);
    assert_eq!(counts(server.addr).await["znode_count"], 5, "the root is removed");
}

fn zk_clients(server: &Server, count: usize) -> Vec<std::net::TcpStream> {
    (0..count)
        .map(|_| {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(server.addr).unwrap();
            // A connection request of protocol 0, timeout 40 s, no session, no password.
            let mut request = vec![0, 0, 0, 44];
            request.extend([0; 12]);
            request.extend(40_000_i32.to_be_bytes());
            request.extend([0; 8]);
            request.extend(16_i32.to_be_bytes());
            request.extend([0; 16]);
            stream.write_all(&request).unwrap();
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).unwrap();
            stream
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_trips_on_a_target_that_is_well_and_the_canary_is_seen() {
    let _alone = alone().await;
    let server = Server::start("", &[]);
    let proxy = Proxy::start(server.addr);
    let levels = "kind = \"levels\"\nlevels = [3, 1, 4]\nsettle_s = 2\nmeasure_s = 3\n";
    let mut run = Run::start(&scenario("use = \"zk\"", levels, SMALL, ""), &config(proxy.addr, ""));
    run.phase(Phase::Measuring, 1).await;
    assert!(proxy.cut() > 0, "the load's own connections come back, and are nobody else's");
    let verdict = run.verdict().await;
    assert_eq!(verdict.stop_code, StopCode::MaxLoad, "{}", verdict.sentence);
    let canary = verdict.steps[1].metric("generator", "canary_ms").unwrap();
    assert!(canary.readings >= 2 && canary.mean > 0.0 && canary.mean < 1_000.0, "{canary:?}");
    let sessions = verdict.steps[3].metric("generator", "load_sessions").unwrap();
    assert_eq!(sessions.last, 20.0);
}
