//! Being asked to end: Ctrl-C, or SIGTERM from a service manager or a pipeline.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears both from the moment it is made, so that none is lost between two waits.
#[derive(Debug)]
pub(super) struct Ends {
    interrupt: Signal,
    terminate: Signal,
}

impl Ends {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits until this process is asked to end.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
