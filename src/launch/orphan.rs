//! What a crash leaves behind: folders of managed targets with an owner file, found and removed by the next start.
//! Never ends a process of which it is not sure: pid, start and the folder in its command line must all agree.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{LaunchError, Orphan, command_recipe::DIR_VARIABLE, process, program};
use crate::model::RunId;

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
    /// What ends the target, where it is more than its processes.
    #[serde(default)]
    pub(super) stop: Option<Stop>,
}

/// A program that ends a target: enough to run it after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stop {
    pub(super) argv: Vec<String>,
    pub(super) workdir: Option<PathBuf>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) timeout_s: u64,
}

impl Stop {
    /// Runs it to its end; blocks, and calls `meanwhile` again and again.
    pub(super) fn run(&self, meanwhile: impl FnMut()) -> Result<(), LaunchError> {
        let what = "the stop command";
        let Some(mut command) = program::command(&self.argv) else {
            return Err(LaunchError::Missing(format!("{what} names no program")));
        };
        command.envs(&self.environment);
        if let Some(workdir) = &self.workdir {
            command.current_dir(workdir);
        }
        program::succeed_blocking(what, command, Duration::from_secs(self.timeout_s), meanwhile)
    }
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
        Self { owner_pid, owner_started_s, servers: Vec::new(), stop: None }
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
fn prepare_base(base: &Path) -> Result<(), LaunchError> {
    use std::os::unix::fs::DirBuilderExt as _;

    let io = |what: &str, source| LaunchError::Io { what: format!("{what} {}", base.display()), source };
    match fs::DirBuilder::new().mode(0o700).create(base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io("making", error)),
        Ok(()) | Err(_) => {}
    }
    if is_mine(base).map_err(|error| io("looking at", error))? {
        return Ok(());
    }
    let text = "it is not a folder of this user that others cannot write to; set TMPDIR to another place";
    Err(io("using", io::Error::new(io::ErrorKind::PermissionDenied, text)))
}

/// /tmp is shared: somebody else's folder or link of that name could point our removals anywhere, and owner files in it
/// name programs to run.
fn is_mine(base: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let found = fs::symlink_metadata(base)?;
    let me = fs::metadata("/proc/self")?.uid();
    Ok(found.is_dir() && found.uid() == me && found.mode() & 0o022 == 0)
}

/// Makes the folder `<base>/<short id>`, or `<short id>-2` and so on while another arm of the run has it, with this
/// process as its owner.
pub(super) fn make_folder(base: &Path, run: RunId) -> Result<PathBuf, LaunchError> {
    let failed = |what: String, source| LaunchError::Io { what, source };
    prepare_base(base)?;
    for number in 1..100 {
        let name = if number == 1 { run.short() } else { format!("{}-{number}", run.short()) };
        let dir = base.join(name);
        match fs::create_dir(&dir) {
            Ok(()) => {
                let written = Owner::this_process().write(&dir);
                return written.map(|()| dir).map_err(|error| failed("writing the owner file".to_owned(), error));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(format!("making {}", dir.display()), error)),
        }
    }
    Err(failed("making a folder".to_owned(), io::Error::other(format!("100 targets of run {} exist", run.short()))))
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
        ended &= stop(base, &owner, &orphan.dir) & end_all(&orphans_of(&orphan.dir, Some(&owner)));
    }
    ended && remove(base, &orphan.dir)
}

fn reap_all_under(base: &Path) -> Vec<Orphan> {
    let Some(entries) = is_mine(base).ok().filter(|mine| *mine).and_then(|_| fs::read_dir(base).ok()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for dir in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let dir = dir.path();
        let owner = read_owner(&dir);
        if owner.as_ref().map_or_else(|| is_young(&dir), Owner::lives) {
            continue;
        }
        let stopped = owner.as_ref().is_none_or(|owner| stop(base, owner, &dir));
        let mut orphans = orphans_of(&dir, owner.as_ref());
        let all_ended = stopped & end_all(&orphans);
        if orphans.is_empty() {
            orphans.push(Orphan { pid: 0, process_started_s: 0, dir: dir.clone() });
        }
        let removed = all_ended && remove(base, &dir);
        tracing::warn!(dir = %dir.display(), removed, "found what a run that ended early left in {}", dir.display());
        found.extend(orphans);
    }
    found
}

/// Runs the command that ends a dead owner's target, if there is one. One that failed is run again at the next start.
fn stop(base: &Path, owner: &Owner, dir: &Path) -> bool {
    let Some(stop) = &owner.stop else { return true };
    // Elsewhere anybody could have written the owner file.
    if !is_mine(base).unwrap_or(false) || dir.parent() != Some(base) {
        return false;
    }
    let stopped = stop.run(|| ());
    if let Err(error) = &stopped {
        tracing::warn!(dir = %dir.display(), "what a run that ended early has started could not be stopped: {error}");
    }
    stopped.is_ok()
}

/// Ends whatever still says of itself that it belongs to the folder. True when nothing does any more.
pub(super) fn end_marked(dir: &Path) -> bool {
    end_all(&orphans_of(dir, None))
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
    let inherited = format!("{DIR_VARIABLE}={}", dir.display());
    let is_marked = |seen: &process::Seen| seen.command.contains(&mark) || seen.environment.contains(&inherited);
    for seen in process::all().into_iter().filter(is_marked) {
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
            && (seen.command.iter().any(|word| word.contains(&*dir))
                || seen.environment.contains(&format!("{DIR_VARIABLE}={dir}")))
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
        Owner { owner_pid: child.id(), owner_started_s: 1, ..Owner::this_process() }
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

    /// An owner that is gone, with a stop command that leaves a word.
    fn stopped_by(words: &Path) -> Owner {
        let script = format!("echo $WORD >>{}", words.display());
        let stop = Stop {
            argv: ["sh", "-c", &script].map(str::to_owned).to_vec(),
            workdir: None,
            environment: BTreeMap::from([("WORD".to_owned(), "stopped".to_owned())]),
            timeout_s: 30,
        };
        Owner { stop: Some(stop), ..gone_owner() }
    }

    #[test]
    fn a_stop_command_is_run_where_nobody_else_can_have_written_it() {
        use std::os::unix::fs::PermissionsExt as _;

        let (base, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let words = elsewhere.path().join("words");
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        stopped_by(&words).write(&dir).unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(reap_all_under(base.path()), []);
        let orphan = |dir: &Path| Orphan { pid: 0, process_started_s: 0, dir: dir.to_path_buf() };
        assert!(!reap_under(base.path(), &orphan(&dir)));
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o700)).unwrap();
        stopped_by(&words).write(elsewhere.path()).unwrap();
        assert!(!reap_under(base.path(), &orphan(elsewhere.path())));
        assert!(!words.exists() && dir.exists());
        assert_eq!(reap_all_under(base.path()), [orphan(&dir)]);
        assert_eq!(fs::read_to_string(&words).unwrap(), "stopped\n");
        assert!(!dir.exists());
    }

    #[test]
    fn a_stop_command_that_fails_is_kept_for_the_next_time() {
        let (base, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        let words = elsewhere.path().join("no-such-folder").join("words");
        stopped_by(&words).write(&dir).unwrap();
        assert_eq!(reap_all_under(base.path()).len(), 1);
        assert!(dir.exists());
        fs::create_dir(words.parent().unwrap()).unwrap();
        assert_eq!(reap_all_under(base.path()).len(), 1);
        assert!(words.exists() && !dir.exists());
    }

    #[test]
    fn a_process_is_known_by_what_it_has_inherited() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        fs::create_dir(&dir).unwrap();
        let mut child =
            Command::new("sh").args(["-c", "read line"]).env(DIR_VARIABLE, &dir).stdin(Stdio::piped()).spawn().unwrap();
        let inherited = format!("{DIR_VARIABLE}={}", dir.display());
        while !process::look(child.id()).is_some_and(|seen| seen.environment.contains(&inherited)) {
            std::thread::yield_now();
        }
        assert!(end_marked(&base.path().join("aa")) && runs(&mut child), "another folder");
        assert!(end_marked(&dir));
        assert!(was_killed(&mut child));
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
