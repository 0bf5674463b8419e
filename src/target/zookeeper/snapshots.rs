//! Looks at the snapshot files of a data directory on this machine: their size and how often they come.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
    time::SystemTime,
};

/// What the files told.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Snapshots {
    /// Size of the newest file that is written to its end, in bytes.
    pub newest_bytes: Option<u64>,
    /// Seconds between the ends of the two newest ones.
    pub interval_s: Option<f64>,
    /// Files written since the first look.
    pub written: u64,
}

/// Looks again and again at one data directory.
#[derive(Debug, Clone)]
pub struct SnapshotFiles {
    dir: PathBuf,
    /// Sizes at the last look: a file is written in place, so that it is whole only when it grows no more.
    sizes: BTreeMap<String, u64>,
    /// Names of the first look.
    before: Option<BTreeSet<String>>,
    /// Names seen since; old files are purged, so that they cannot be counted on the disk.
    since: BTreeSet<String>,
}

impl SnapshotFiles {
    /// The files below a data directory, in its `version-2`.
    #[must_use]
    pub fn new(data_dir: &std::path::Path) -> Self {
        Self { dir: data_dir.join("version-2"), sizes: BTreeMap::new(), before: None, since: BTreeSet::new() }
    }

    /// Looks once. Blocking.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn look(&mut self) -> io::Result<Snapshots> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with("snapshot.")).map(str::to_owned)
            else {
                continue;
            };
            // Between listing and looking a file may be purged.
            if let Ok(data) = entry.metadata() {
                found.insert(name, (data.len(), data.modified()?));
            }
        }
        Ok(self.take(&found))
    }

    fn take(&mut self, found: &BTreeMap<String, (u64, SystemTime)>) -> Snapshots {
        let before = self.before.get_or_insert_with(|| found.keys().cloned().collect());
        self.since.extend(found.keys().filter(|name| !before.contains(*name)).cloned());
        let mut whole: Vec<_> = found
            .iter()
            .filter(|(name, (size, _))| self.sizes.get(*name) == Some(size))
            .map(|(_, data)| data)
            .collect();
        whole.sort_by_key(|(_, at)| *at);
        self.sizes = found.iter().map(|(name, (size, _))| (name.clone(), *size)).collect();
        let interval = match whole.as_slice() {
            [.., (_, before), (_, newest)] => newest.duration_since(*before).ok(),
            _ => None,
        };
        Snapshots {
            newest_bytes: whole.last().map(|(size, _)| *size),
            interval_s: interval.map(|interval| interval.as_secs_f64()),
            written: self.since.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn files(list: &[(&str, u64, u64)]) -> BTreeMap<String, (u64, SystemTime)> {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        list.iter().map(|(name, size, seconds)| ((*name).to_owned(), (*size, at(*seconds)))).collect()
    }

    #[test]
    fn a_growing_file_is_not_the_newest_yet() {
        let mut snapshots = SnapshotFiles::new("/x".as_ref());
        let first = files(&[("snapshot.0", 400, 100)]);
        assert_eq!(snapshots.take(&first).newest_bytes, None, "whether it grows shows at the second look");
        assert_eq!(snapshots.take(&first).newest_bytes, Some(400));
        let growing = snapshots.take(&files(&[("snapshot.0", 400, 100), ("snapshot.a", 50, 130)]));
        assert_eq!(growing, Snapshots { newest_bytes: Some(400), interval_s: None, written: 1 });
        let _ = snapshots.take(&files(&[("snapshot.0", 400, 100), ("snapshot.a", 900, 131)]));
        let whole = snapshots.take(&files(&[("snapshot.0", 400, 100), ("snapshot.a", 900, 131)]));
        assert_eq!(whole, Snapshots { newest_bytes: Some(900), interval_s: Some(31.0), written: 1 });
    }

    #[test]
    fn purged_files_stay_counted() {
        let mut snapshots = SnapshotFiles::new("/x".as_ref());
        let _ = snapshots.take(&files(&[("snapshot.0", 1, 1)]));
        let _ = snapshots.take(&files(&[("snapshot.0", 1, 1), ("snapshot.1", 1, 2), ("snapshot.2", 1, 3)]));
        assert_eq!(snapshots.take(&files(&[("snapshot.3", 1, 4)])).written, 3);
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_an_error() {
        assert!(SnapshotFiles::new("/nonexistent".as_ref()).look().is_err());
    }
}
