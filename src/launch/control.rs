//! A launched target while it runs: its states, orders to single servers, its end. Starts nothing for the first time.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::{
    LaunchError, Managed, NodeAction, ProcessKind, ProcessState,
    local::{POLL, Target},
    ports,
    server::Server,
};
use crate::target::{ManagedNode, TargetSpec, zookeeper::ZookeeperSpec};

/// How long a server may take to end when the whole target is stopped; then it is killed.
const TERM_WAIT: Duration = Duration::from_secs(5);
/// How long one server may take to do what it was told: a JVM short of memory ends slowly.
const ORDER_WAIT: Duration = Duration::from_secs(30);

impl Target {
    fn find(&self, node: &str, action: NodeAction) -> Result<&Server, LaunchError> {
        self.servers.iter().find(|server| server.name == node).ok_or_else(|| {
            let names: Vec<_> = self.servers.iter().map(|server| server.name.as_str()).collect();
            order(node, action, format!("it is no server of this target; there are {}", names.join(", ")))
        })
    }
}

fn order(node: &str, action: NodeAction, why: String) -> LaunchError {
    LaunchError::Order { node: node.to_owned(), action, why }
}

/// Whether an action makes sense in a state; if not, why.
fn fits(action: NodeAction, state: &ProcessKind) -> Result<(), String> {
    match (action, state) {
        (NodeAction::Start, ProcessKind::Exited(_) | ProcessKind::EndedOnPurpose(_))
        | (NodeAction::Pause, ProcessKind::Running)
        | (NodeAction::Resume, ProcessKind::Stopped)
        | (NodeAction::Stop | NodeAction::Kill, ProcessKind::Running | ProcessKind::Stopped) => Ok(()),
        (NodeAction::Start | NodeAction::Resume, ProcessKind::Running) => Err("it runs".to_owned()),
        (NodeAction::Start, ProcessKind::Stopped) => Err("it is paused; resume it".to_owned()),
        (NodeAction::Pause, ProcessKind::Stopped) => Err("it is paused already".to_owned()),
        (_, ProcessKind::Exited(status) | ProcessKind::EndedOnPurpose(status)) => {
            Err(format!("it has ended ({status})"))
        }
    }
}

/// Waits until a server is in a state.
async fn until(server: &Server, action: NodeAction, reached: impl Fn(&Server) -> bool) -> Result<(), LaunchError> {
    let since = Instant::now();
    while !reached(server) {
        if since.elapsed() > ORDER_WAIT {
            let why = format!("it did not do so within {} s", ORDER_WAIT.as_secs());
            return Err(order(&server.name, action, why));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// A port of the server that somebody else has now, with what it is for.
fn taken_port(server: &Server) -> Option<String> {
    let mut addresses = server.node.listens_on().into_iter();
    let (what, address) = addresses.find(|(_, address)| ports::in_use(*address))?;
    Some(format!("its {what} {address} is in use by another process; free it and start it again"))
}

#[async_trait]
impl Managed for Target {
    fn spec(&self) -> TargetSpec {
        TargetSpec::Zookeeper(ZookeeperSpec {
            servers: self.servers.iter().map(|server| server.node.client).collect(),
            chroot: String::new(),
            digest: None,
            admin_urls: self.servers.iter().filter_map(|server| server.info.as_ref()?.admin_url.clone()).collect(),
            metrics_urls: self.servers.iter().filter_map(|server| server.info.as_ref()?.metrics_url.clone()).collect(),
            node_exporters: Vec::new(),
            hosts: Vec::new(),
            source_addresses: Vec::new(),
            tls: None,
        })
    }

    fn nodes(&self) -> Vec<ManagedNode> {
        let node = |server: &Server| Some(ManagedNode { pid: server.pid(), ..server.info.clone()? });
        self.servers.iter().filter_map(node).collect()
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn process_states(&self) -> Vec<ProcessState> {
        self.servers.iter().map(Server::state).collect()
    }

    fn log_tail(&self, node: &str, lines: usize) -> Vec<String> {
        let server = self.servers.iter().find(|server| server.name == node);
        server.map(|server| server.log_tail(lines)).unwrap_or_default()
    }

    async fn control(&self, node: &str, action: NodeAction) -> Result<(), LaunchError> {
        let server = self.find(node, action)?;
        let _one_at_a_time = server.order.lock().await;
        fits(action, &server.kind()).map_err(|why| order(node, action, why))?;
        match action {
            NodeAction::Stop => {
                server.terminate();
                until(server, action, Server::has_ended).await
            }
            NodeAction::Kill => {
                server.kill();
                until(server, action, Server::has_ended).await
            }
            NodeAction::Pause => {
                server.pause();
                until(server, action, |server| server.kind() == ProcessKind::Stopped).await
            }
            NodeAction::Resume => {
                server.resume();
                until(server, action, |server| server.kind() != ProcessKind::Stopped).await
            }
            NodeAction::Start => match taken_port(server) {
                Some(why) => Err(order(node, action, why)),
                None => self.start_again(server).await,
            },
        }
    }

    async fn stop(self: Box<Self>) -> Option<LaunchError> {
        self.servers.iter().for_each(Server::terminate);
        let since = Instant::now();
        while !self.servers.iter().all(Server::has_ended) && since.elapsed() < TERM_WAIT {
            tokio::time::sleep(POLL).await;
        }
        // Killing what is left and removing gigabytes of snapshots is work for a blocking thread.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
        None
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.servers.iter().for_each(Server::kill);
        self.servers.iter().for_each(Server::reap);
        // Reaped already: gone is what is wanted.
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(dir = %self.dir.display(), "could not remove {}: {error}", self.dir.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_fits_some_states_only() {
        use NodeAction::{Kill, Pause, Resume, Start, Stop};

        let exited = ProcessKind::Exited("signal: 9".to_owned());
        let ended = ProcessKind::EndedOnPurpose("exit status: 143".to_owned());
        let table = [
            (ProcessKind::Running, vec![Stop, Kill, Pause]),
            (ProcessKind::Stopped, vec![Stop, Kill, Resume]),
            (exited, vec![Start]),
            (ended, vec![Start]),
        ];
        for (state, allowed) in table {
            for action in [Stop, Kill, Pause, Resume, Start] {
                assert_eq!(fits(action, &state).is_ok(), allowed.contains(&action), "{action} when {state:?}");
            }
        }
    }
}
