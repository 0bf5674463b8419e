//! What a crash leaves behind: folders of managed targets with an owner file, found and removed by the next start.
//! Never ends a process of which it is not sure: pid, start and the folder in its command line must all agree.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{LaunchError, Orphan, process};

/// Names the owner of a managed folder.
const OWNER_FILE: &str = "owner.json";
/// The argument by which a server says whose it is; the launcher puts it on every command line.
pub(super) const DIR_PROPERTY: &str = "-Drampart.dir=";
/// A folder without an owner file is a start that was cut off, unless it is this young: its owner may be about to write.
const UNOWNED_AGE: Duration = Duration::from_secs(600);
/// How long a killed process may take to go.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// Who started a managed target, and what it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    pub(super) owner_pid: u32,
    pub(super) owner_started_s: u64,
    pub(super) servers: Vec<Server>,
}

/// One process of a managed target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) node: String,
    pub(super) pid: u32,
    pub(super) started_s: u64,
}

impl Owner {
    /// This process, without servers yet.
    pub(super) fn this_process() -> Self {
        let owner_pid = std::process::id();
        let owner_started_s = process::look(owner_pid).map_or(0, |seen| seen.started_s);
        Self { owner_pid, owner_started_s, servers: Vec::new() }
    }

    /// Writes the owner file of a folder, whole or not at all.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let part = dir.join("owner.json.part");
        fs::write(&part, serde_json::to_vec_pretty(self)?)?;
        fs::rename(part, dir.join(OWNER_FILE))
    }

    fn lives(&self) -> bool {
        process::look(self.owner_pid).is_some_and(|seen| seen.started_at(self.owner_started_s))
    }
}

/// The folder under which all managed targets of this user lie: `rampart-managed` in the system's folder for temporary
/// files (`TMPDIR`).
#[must_use]
pub fn managed_base() -> PathBuf {
    std::env::temp_dir().join("rampart-managed")
}

/// The base as it must be before anything is put there: present, a real folder, closed to others.
pub(super) fn prepare_base(base: &Path) -> Result<(), LaunchError> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    let io = |what: &str, source| LaunchError::Io { what: format!("{what} {}", base.display()), source };
    match fs::DirBuilder::new().mode(0o700).create(base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io("making", error)),
        Ok(()) | Err(_) => {}
    }
    // /tmp is shared: somebody else's folder or link of that name could point our removals anywhere.
    let found = fs::symlink_metadata(base).map_err(|error| io("looking at", error))?;
    let mine = fs::metadata("/proc/self").map_err(|error| io("looking at", error))?.uid();
    if !found.is_dir() || found.uid() != mine {
        let text = "it is not a folder of this user; set TMPDIR to another place";
        return Err(io("using", io::Error::new(io::ErrorKind::PermissionDenied, text)));
    }
    Ok(())
}

/// Ends what an orphan names, if it is surely it, and removes its folder if that lies under [`managed_base`]. True when
/// the process is gone and nothing of the folder is left.
#[must_use]
pub fn reap(orphan: &Orphan) -> bool {
    reap_under(&managed_base(), orphan)
}

/// Reaps every folder under [`managed_base`] whose owner is gone; gives what was found, one entry a server, or one with
/// pid 0 for a folder without servers.
#[must_use]
pub fn reap_orphans() -> Vec<Orphan> {
    reap_all_under(&managed_base())
}

fn reap_under(base: &Path, orphan: &Orphan) -> bool {
    let mut ended = end(orphan);
    // A server that was started again after it was noted has another pid: the folder must not go from under it.
    if let Some(owner) = read_owner(&orphan.dir).filter(|owner| !owner.lives()) {
        ended &= end_all(&orphans_of(&orphan.dir, Some(&owner)));
    }
    ended && remove(base, &orphan.dir)
}

fn reap_all_under(base: &Path) -> Vec<Orphan> {
    let Ok(entries) = fs::read_dir(base) else { return Vec::new() };
    let mut found = Vec::new();
    for dir in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let dir = dir.path();
        let owner = read_owner(&dir);
        if owner.as_ref().map_or_else(|| is_young(&dir), Owner::lives) {
            continue;
        }
        let mut orphans = orphans_of(&dir, owner.as_ref());
        let all_ended = end_all(&orphans);
        if orphans.is_empty() {
            orphans.push(Orphan { pid: 0, process_started_s: 0, dir: dir.clone() });
        }
        let removed = all_ended && remove(base, &dir);
        tracing::warn!(dir = %dir.display(), removed, "found what a run that ended early left in {}", dir.display());
        found.extend(orphans);
    }
    found
}

fn read_owner(dir: &Path) -> Option<Owner> {
    serde_json::from_slice(&fs::read(dir.join(OWNER_FILE)).ok()?).ok()
}

fn is_young(dir: &Path) -> bool {
    let age = fs::metadata(dir).and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
    age.is_none_or(|age| age < UNOWNED_AGE)
}

/// The servers that the owner wrote down, and those that say themselves that they belong to the folder: a crash between
/// starting one and writing it down leaves the second kind only.
fn orphans_of(dir: &Path, owner: Option<&Owner>) -> Vec<Orphan> {
    let orphan = |pid, process_started_s| Orphan { pid, process_started_s, dir: dir.to_path_buf() };
    let written = owner.into_iter().flat_map(|owner| &owner.servers);
    let mut orphans: Vec<_> = written.map(|server| orphan(server.pid, server.started_s)).collect();
    let mark = format!("{DIR_PROPERTY}{}", dir.display());
    for seen in process::all().into_iter().filter(|seen| seen.command.contains(&mark)) {
        if orphans.iter().all(|known| known.pid != seen.pid) {
            orphans.push(orphan(seen.pid, seen.started_s));
        }
    }
    orphans
}

/// Ends the process if it is the orphan's. True when the orphan's process runs no more, which it may have done before.
fn end(orphan: &Orphan) -> bool {
    let is_it = |seen: &process::Seen| {
        // An empty path would be part of every command line.
        let dir = orphan.dir.to_string_lossy();
        seen.started_at(orphan.process_started_s)
            && orphan.dir.is_absolute()
            && seen.command.iter().any(|word| word.contains(&*dir))
    };
    let since = Instant::now();
    while process::look(orphan.pid).as_ref().is_some_and(is_it) {
        if since.elapsed() > KILL_WAIT {
            return false;
        }
        process::kill(orphan.pid);
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Ends every one, also after one that would not go. True when none runs any more.
fn end_all(orphans: &[Orphan]) -> bool {
    let mut ended = true;
    for orphan in orphans {
        ended &= end(orphan);
    }
    ended
}

/// Removes a folder that lies directly or deeper under the base, links resolved. True when it is gone.
fn remove(base: &Path, dir: &Path) -> bool {
    let (Ok(base), Ok(real)) = (base.canonicalize(), dir.canonicalize()) else { return !dir.exists() };
    if real == base || !real.starts_with(&base) {
        return false;
    }
    fs::remove_dir_all(&real).is_ok() || !real.exists()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that carries `dir` on its command line, as a server does.
    fn server(dir: &Path) -> (Child, Orphan) {
        let mark = format!("{DIR_PROPERTY}{}", dir.display());
        let child = Command::new("sh").args(["-c", "read line", &mark]).stdin(Stdio::piped()).spawn().unwrap();
        // Until the shell has replaced the fork of this process.
        let seen = loop {
            match process::look(child.id()) {
                Some(seen) if seen.command.contains(&mark) => break seen,
                Some(_) | None => std::thread::yield_now(),
            }
        };
        let orphan = Orphan { pid: child.id(), process_started_s: seen.started_s, dir: dir.to_path_buf() };
        (child, orphan)
    }

    fn runs(child: &mut Child) -> bool {
        child.try_wait().unwrap().is_none()
    }

    /// Waiting closes its input, which ends it too, but not by a signal.
    fn was_killed(child: &mut Child) -> bool {
        use std::os::unix::process::ExitStatusExt;

        child.wait().unwrap().signal() == Some(9)
    }

    fn gone_owner() -> Owner {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        Owner { owner_pid: child.id(), owner_started_s: 1, servers: Vec::new() }
    }

    #[test]
    fn an_orphan_is_ended_and_its_folder_removed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        let (mut child, orphan) = server(&dir);
        assert!(reap_under(base.path(), &orphan));
        assert!(was_killed(&mut child));
        assert!(!dir.exists());
        assert!(reap_under(base.path(), &orphan), "reaping what is gone is done at once");
    }

    #[test]
    fn one_difference_saves_a_process() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        let (mut child, orphan) = server(&dir);
        let others = [
            Orphan { process_started_s: orphan.process_started_s + 60, ..orphan.clone() },
            Orphan { dir: base.path().join("b"), ..orphan.clone() },
            Orphan { dir: PathBuf::new(), ..orphan.clone() },
        ];
        for other in others {
            let _ = reap_under(base.path(), &other);
            assert!(runs(&mut child), "{other:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn nothing_outside_the_base_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        let climbing = base.path().join("..").join(outside.path().file_name().unwrap());
        for dir in [outside.path(), base.path(), &link, &climbing] {
            assert!(!remove(base.path(), dir), "{}", dir.display());
            assert!(dir.exists(), "{}", dir.display());
        }
    }

    #[test]
    fn a_living_owner_keeps_its_folder() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        Owner::this_process().write(&dir).unwrap();
        assert_eq!(reap_all_under(base.path()), []);
        assert!(dir.exists());
        // The same pid with another start is another process.
        Owner { owner_started_s: 1, ..Owner::this_process() }.write(&dir).unwrap();
        assert_eq!(reap_all_under(base.path()), [Orphan { pid: 0, process_started_s: 0, dir: dir.clone() }]);
        assert!(!dir.exists());
    }

    #[test]
    fn a_server_that_was_not_written_down_is_found_by_its_mark() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        gone_owner().write(&dir).unwrap();
        let (mut child, orphan) = server(&dir);
        let reaped = reap_all_under(base.path());
        assert_eq!(reaped.iter().map(|found| found.pid).collect::<Vec<_>>(), [orphan.pid]);
        assert!(was_killed(&mut child));
        assert!(!dir.exists());
    }

    #[test]
    fn all_servers_of_a_dead_owner_go_with_the_one_that_was_noted() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        let (mut noted, orphan) = server(&dir);
        let (mut again, written) = server(&dir);
        noted.kill().unwrap();
        noted.wait().unwrap();
        let servers = vec![Server { node: "a".to_owned(), pid: written.pid, started_s: written.process_started_s }];
        Owner { servers, ..gone_owner() }.write(&dir).unwrap();
        assert!(reap_under(base.path(), &orphan));
        assert!(was_killed(&mut again));
        assert!(!dir.exists());
    }

    #[test]
    fn a_young_folder_without_an_owner_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        assert_eq!(reap_all_under(base.path()), []);
        assert!(dir.exists());
    }
}
