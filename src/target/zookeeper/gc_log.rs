//! Reads a JVM's GC log (`-Xlog:gc*`) as it grows: pauses and the heap after collections, of Serial, Parallel, G1,
//! Shenandoah and ZGC. On small heaps it alone shows the cliff that comes (reference/zookeeper.md section 8).

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

/// Bytes read at once at most; a log that grew by more is read in several rounds.
const READ_LIMIT: u64 = 4 << 20;

/// What one line told.
#[derive(Debug, Clone, PartialEq)]
pub enum GcEvent {
    /// The limit of the heap, in bytes.
    HeapMax(u64),
    /// The application stood still for that many milliseconds.
    Pause(f64),
    /// The heap after a collection, in bytes.
    HeapAfter(u64),
}

/// A log that is read from where the last round ended.
#[derive(Debug, Clone)]
pub struct GcLog {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

impl GcLog {
    /// The log at a path, from its beginning.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, partial: Vec::new() }
    }

    /// What was written since the last round.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_new(&mut self) -> io::Result<Vec<GcEvent>> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() < self.offset {
            // Begun anew.
            self.offset = 0;
            self.partial.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(READ_LIMIT).read_to_end(&mut bytes)?;
        self.offset += bytes.len() as u64;
        Ok(self.take(&bytes))
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<GcEvent> {
        self.partial.extend_from_slice(bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole).lines().flat_map(parse).collect()
    }
}

/// Reads one line, whatever decorations it carries.
fn parse(line: &str) -> Vec<GcEvent> {
    if let Some((_, max)) = line.split_once("Max Capacity: ") {
        return heap_size(max.trim()).map(GcEvent::HeapMax).into_iter().collect();
    }
    // `[...][gc,start    ] GC(7) text`: the text of a collection stands behind its number.
    let Some((decorations, rest)) = line.split_once("] GC(") else { return Vec::new() };
    let Some((_number, text)) = rest.split_once(") ") else { return Vec::new() };
    let tags = decorations.rsplit('[').next().unwrap_or_default().trim();
    let mut events = Vec::new();
    // G1 writes its pauses under `gc` with the details under `gc,phases`; ZGC writes pauses under `gc,phases` only.
    if matches!(tags, "gc" | "gc,phases") && text.starts_with("Pause ") {
        events.extend(milliseconds(text).map(GcEvent::Pause));
    }
    // Remark and Cleanup pauses free no memory: the heap they tell is one before a collection.
    let no_collection = ["Pause Remark", "Pause Cleanup", "Pause Init", "Pause Final", "Concurrent Mark"];
    if tags == "gc" && !no_collection.iter().any(|begin| text.starts_with(begin)) {
        events.extend(heap_after(text).map(GcEvent::HeapAfter));
    }
    events
}

/// `3.123` of a text that ends in `3.123ms`.
fn milliseconds(text: &str) -> Option<f64> {
    let word = text.split_whitespace().next_back()?.strip_suffix("ms")?;
    // Some locales write a comma.
    word.replace(',', ".").parse().ok().filter(|ms: &f64| ms.is_finite() && *ms >= 0.0)
}

/// `10M` of `24M->10M(256M)`, or of `24M(9%)->10M(4%)`.
fn heap_after(text: &str) -> Option<u64> {
    let (_, after) = text.split_whitespace().find_map(|word| word.split_once("->"))?;
    heap_size(after.split('(').next()?)
}

/// `512K`, `10M`, `2G` in bytes.
fn heap_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{GcEvent::*, *};

    const M: u64 = 1 << 20;

    fn events(log: &str) -> Vec<GcEvent> {
        GcLog::new(PathBuf::new()).take(log.as_bytes())
    }

    #[test]
    fn g1_of_17_is_read() {
        let log = "\
[2026-12-01T03:21:39.919+0000][0.017s][info][gc,init] Heap Max Capacity: 64M
[2026-12-01T03:21:40.191+0000][0.289s][info][gc,start    ] GC(0) Pause Young (Normal) (G1 Evacuation Pause)
[2026-12-01T03:21:40.199+0000][0.297s][info][gc,phases   ] GC(0)   Evacuate Collection Set: 3.9ms
[2026-12-01T03:21:40.199+0000][0.297s][info][gc,heap     ] GC(0) Eden regions: 6->0(5)
[2026-12-01T03:21:40.199+0000][0.297s][info][gc,metaspace] GC(0) Metaspace: 3829K(4032K)->3829K(4032K)
[2026-12-01T03:21:40.199+0000][0.297s][info][gc          ] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->10M(64M) 3.123ms
[2026-12-01T03:21:40.300+0000][0.397s][info][gc          ] GC(1) Concurrent Mark Cycle
[2026-12-01T03:21:40.301+0000][0.398s][info][gc          ] GC(1) Pause Remark 40M->40M(64M) 1.500ms
[2026-12-01T03:21:40.310+0000][0.410s][info][gc          ] GC(1) Pause Cleanup 41M->41M(64M) 0.002ms
[2026-12-01T03:21:40.320+0000][0.420s][info][gc          ] GC(1) Concurrent Mark Cycle 9.1ms
[2026-12-01T03:21:41.000+0000][1.100s][info][gc,phases   ] GC(2) Phase 1: Mark live objects 55.1ms
[2026-12-01T03:21:41.000+0000][1.100s][info][gc          ] GC(2) Pause Full (G1 Compaction Pause) 64M->62M(64M) 120.5ms
";
        let want = [
            HeapMax(64 * M),
            Pause(3.123),
            HeapAfter(10 * M),
            Pause(1.5),
            Pause(0.002),
            Pause(120.5),
            HeapAfter(62 * M),
        ];
        assert_eq!(events(log), want);
    }

    #[test]
    fn other_collectors_are_read() {
        let serial = "[0.1s][info][gc] GC(0) Pause Young (Allocation Failure) 17M->2048K(61M) 3.456ms\n\
                      [0.2s][info][gc] GC(1) Pause Full (Allocation Failure) 61M->60M(61M) 88.000ms\n";
        assert_eq!(events(serial), [Pause(3.456), HeapAfter(2 * M), Pause(88.0), HeapAfter(60 * M)]);
        let parallel = "[0.1s][info][gc] GC(4) Pause Full (Ergonomics) 8M->7M(61M) 15.877ms\n";
        assert_eq!(events(parallel), [Pause(15.877), HeapAfter(7 * M)]);
        let zgc = "[0.1s][info][gc,init] Max Capacity: 2G\n\
                   [0.2s][info][gc,phases   ] GC(0) Pause Mark Start 0.010ms\n\
                   [0.3s][info][gc          ] GC(0) Garbage Collection (Warmup) 206M(10%)->98M(5%)\n";
        assert_eq!(events(zgc), [HeapMax(2048 * M), Pause(0.010), HeapAfter(98 * M)]);
        let shenandoah = "[0.1s][info][gc] GC(0) Pause Init Mark (unload classes) 0.151ms\n\
                          [0.2s][info][gc] GC(0) Concurrent cleanup 20M->10M(64M) 0.041ms\n";
        assert_eq!(events(shenandoah), [Pause(0.151), HeapAfter(10 * M)]);
    }

    #[test]
    fn a_file_is_read_on_from_where_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gc.log");
        let mut log = GcLog::new(path.clone());
        assert!(log.read_new().is_err(), "no file is an error, not silence");
        std::fs::write(&path, "[gc] GC(0) Pause Full (x) 3M->1M(4M) 5.0ms\n[gc] GC(1) Pause Fu").unwrap();
        assert_eq!(log.read_new().unwrap(), [Pause(5.0), HeapAfter(M)]);
        assert_eq!(log.read_new().unwrap(), []);
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"ll (x) 4M->2M(4M) 7.0ms\n").unwrap();
        assert_eq!(log.read_new().unwrap(), [Pause(7.0), HeapAfter(2 * M)]);
        std::fs::write(&path, "[gc] GC(0) Pause Full (x) 4M->3M(4M) 9.0ms\n").unwrap();
        assert_eq!(log.read_new().unwrap(), [Pause(9.0), HeapAfter(3 * M)]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut log = GcLog::new(PathBuf::new());
            let _ = log.take(&bytes);
            let _ = log.take(b"\n");
        }

        #[test]
        fn no_line_makes_the_reader_panic(text in "(Pause (Full|Young)|\\(|\\)|->|[0-9]{0,25}[KMG]?|ms| |é){0,12}") {
            let _ = parse(&format!("[gc] GC(0) {text}"));
            let _ = parse(&format!("Max Capacity: {text}"));
        }

        #[test]
        fn where_a_log_is_cut_does_not_matter(cut in 0..130_usize) {
            let text = "[gc] GC(0) Pause Full (x) 3M->1M(4M) 5.0ms\n[gc] GC(1) Pause Young (é) 4M->2M(4M) 0.5ms\n[gc]";
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            let mut log = GcLog::new(PathBuf::new());
            let mut found = log.take(&bytes[..cut]);
            found.extend(log.take(&bytes[cut..]));
            prop_assert_eq!(found, vec![Pause(5.0), HeapAfter(M), Pause(0.5), HeapAfter(2 * M)]);
        }
    }
}
