//! Runs programs of the configuration to their end: an argument list, never a shell. What they wrote is kept and its end
//! quoted. Knows nothing of targets.

use std::{
    fs::File,
    io,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use super::LaunchError;

/// Bytes of an output that are read for its end.
const TAIL_BYTES: u64 = 64 << 10;
/// Lines that an error quotes.
const QUOTED_LINES: usize = 30;

/// What a program did that ended in time.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    /// The last lines of its output and its errors.
    pub(super) output: String,
    pub(super) took: Duration,
}

/// A child that leads a process group of its own; unless it was seen to end, the whole group is killed with the value.
#[derive(Debug)]
pub(super) struct Group {
    child: tokio::process::Child,
    leader: Option<Pid>,
}

impl Group {
    /// Starts a program whose output and errors go to `output`.
    pub(super) fn spawn(mut command: Command, output: &File) -> io::Result<Self> {
        // Ctrl-C at the terminal goes to Rampart, which then stops it in order.
        command.process_group(0).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let child = tokio::process::Command::from(command).spawn()?;
        let leader = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        Ok(Self { child, leader })
    }

    /// Waits until the leader has ended. What it left in the background goes on.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        // From here on the number may be another group's.
        self.leader = None;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            // An error means that it has ended meanwhile, which nobody waited for.
            let _ = killpg(leader, Signal::SIGKILL);
        }
    }
}

/// Runs a program to its end, whatever that is. `what` names it in errors. A program that is not done in time, or that
/// nobody waits for any more, is killed with all that it started.
pub(super) async fn run(what: &str, command: Command, within: Duration) -> Result<Ran, LaunchError> {
    let io_error = |source| LaunchError::Io { what: what.to_owned(), source };
    // A file and no pipe: what the program leaves in the background may go on writing.
    let output = tempfile::tempfile().map_err(io_error)?;
    let since = Instant::now();
    let program = command.get_program().to_string_lossy().into_owned();
    let mut group = Group::spawn(command, &output).map_err(|error| unstarted(what, &program, error))?;
    match tokio::time::timeout(within, group.wait()).await {
        Ok(status) => Ok(Ran { status: status.map_err(io_error)?, output: quote(&output), took: since.elapsed() }),
        Err(_elapsed) => {
            drop(group);
            let why = format!("{program} was not done within {} s and was killed", within.as_secs());
            Err(LaunchError::Command { what: what.to_owned(), why, output: quote(&output) })
        }
    }
}

/// As [`run`], where any end but 0 is an error.
pub(super) async fn succeed(what: &str, command: Command, within: Duration) -> Result<Ran, LaunchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ran = run(what, command, within).await?;
    if ran.status.success() {
        return Ok(ran);
    }
    let why = format!("{program} ended with {}", ran.status);
    Err(LaunchError::Command { what: what.to_owned(), why, output: ran.output })
}

/// An argument list as a command; `None` for an empty one.
pub(super) fn command(argv: &[String]) -> Option<Command> {
    let (program, arguments) = argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

pub(super) fn unstarted(what: &str, program: &str, error: io::Error) -> LaunchError {
    if error.kind() == io::ErrorKind::NotFound {
        return LaunchError::Missing(format!(
            "{what}: there is no program {program} here, neither as a path nor on PATH"
        ));
    }
    LaunchError::Io { what: format!("{what}: starting {program}"), source: error }
}

/// The last lines of a file from an offset on, oldest first; none when it cannot be read. Leaves the file's own offset
/// alone, which a program that still writes may share.
pub(super) fn tail(file: &File, from: u64, lines: usize) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let end = file.metadata()?.len();
        let begin = end.saturating_sub(TAIL_BYTES).max(from);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(begin)).unwrap_or_default()];
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], begin + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    };
    let text = read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<_> = text.lines().map(str::to_owned).collect();
    all[all.len().saturating_sub(lines)..].to_vec()
}

/// As much of an output as an error quotes.
pub(super) fn quote(file: &File) -> String {
    tail(file, 0, QUOTED_LINES).join("\n")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_tail_is_of_one_process_or_of_all() {
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(b"old\nolder\nnew\nnewer\n").unwrap();
        assert_eq!(tail(&log, 0, 3), ["older", "new", "newer"]);
        assert_eq!(tail(&log, 10, 30), ["new", "newer"]);
        assert_eq!(tail(&log, 99, 30), Vec::<String>::new());
        log.write_all(b"last\n").unwrap();
        assert_eq!(tail(&log, 0, 2), ["newer", "last"], "reading moved the place where writing goes on");
    }

    #[tokio::test]
    async fn an_end_and_what_was_written_are_told() {
        let ran = run("a", shell("echo out; echo err >&2; exit 3"), Duration::from_secs(30)).await.unwrap();
        assert_eq!((ran.status.code(), ran.output.as_str()), (Some(3), "out\nerr"));
        let error = succeed("a", shell("echo why; exit 3"), Duration::from_secs(30)).await.unwrap_err().to_string();
        assert_eq!(error, "a: sh ended with exit status: 3; the end of its output:\nwhy");
    }

    #[tokio::test]
    async fn one_that_is_late_goes_with_all_that_it_started() {
        let since = Instant::now();
        let script = "sleep 300 & echo $!; wait";
        let error = run("a", shell(script), Duration::from_secs(1)).await.unwrap_err();
        assert!(since.elapsed() < Duration::from_secs(30));
        let LaunchError::Command { why, output, .. } = &error else { panic!("{error}") };
        assert_eq!(why, "sh was not done within 1 s and was killed");
        let sleeper = output.trim().parse().unwrap();
        while super::super::process::look(sleeper).is_some() {
            assert!(since.elapsed() < Duration::from_secs(30), "what it started goes on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn what_it_leaves_in_the_background_goes_on_and_holds_nobody_up() {
        let since = Instant::now();
        let ran = succeed("a", shell("sleep 300 & echo $!"), Duration::from_secs(30)).await.unwrap();
        assert!(since.elapsed() < Duration::from_secs(30));
        let sleeper = ran.output.trim().parse().unwrap();
        assert!(super::super::process::look(sleeper).is_some());
        assert!(super::super::process::kill(sleeper));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let argv = ["/nonexistent/x".to_owned(), "y".to_owned()];
        let error = run("a", command(&argv).unwrap(), Duration::from_secs(1)).await.unwrap_err().to_string();
        assert_eq!(error, "a: there is no program /nonexistent/x here, neither as a path nor on PATH");
        assert!(command(&[]).is_none());
    }
}
