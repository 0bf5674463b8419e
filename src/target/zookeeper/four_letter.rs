//! The four-letter words: four bytes to the client port, text until the server closes. Every way of not answering is
//! told apart; none of them is ever a zero.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpSocket,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use zk_wire::{Tls, TlsFault};

use crate::{
    sample::{BODY_LIMIT, FetchError},
    target::Condition,
};

/// Longest answer that is read, in bytes. `mntr` of 3.8 has 16 KB; `cons` of 10,000 connections 2 MB. There is no limit
/// of lines: a collector with one lost everything when `mntr` grew (netdata/netdata#9852).
pub const ANSWER_LIMIT: usize = 8 << 20;

/// The source address of samplers towards servers on loopback. It is not one that sessions of the load come from, since
/// `maxClientCnxns` counts by source address and would blind the sampler exactly when the limit is met.
pub const SAMPLER_SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 2, 1));

/// Why there is no answer to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    #[error("{text}")]
    Silent { condition: Condition, text: String },
    #[error("{command} answered with more than {limit} bytes")]
    TooLong { command: String, limit: usize },
}

impl AskError {
    /// What the failure says of the server. One that answers too much does serve.
    #[must_use]
    pub const fn condition(&self) -> Condition {
        match self {
            Self::Silent { condition, .. } => *condition,
            Self::TooLong { .. } => Condition::Serving,
        }
    }
}

impl From<FetchError> for AskError {
    fn from(error: FetchError) -> Self {
        let text = error.to_string();
        let condition = match error {
            FetchError::Unreachable { .. } => Condition::Unreachable,
            FetchError::Broken { .. } => Condition::Empty,
            FetchError::TimedOut { .. } => Condition::TimedOut,
            FetchError::Refused { .. } => Condition::Refused,
            FetchError::TooLong { url } => return Self::TooLong { command: url, limit: BODY_LIMIT },
        };
        Self::Silent { condition, text }
    }
}

/// The address that questions to `server` should come from: [`SAMPLER_SOURCE`] for loopback where the system has it,
/// else `None`, the system's choice.
#[must_use]
pub fn sampler_source(server: SocketAddr) -> Option<IpAddr> {
    let loopback = matches!(server.ip(), IpAddr::V4(ip) if ip.is_loopback());
    (loopback && std::net::UdpSocket::bind((SAMPLER_SOURCE, 0)).is_ok()).then_some(SAMPLER_SOURCE)
}

/// Asks one question and gives the whole answer of a server that serves. `within` spans connecting and reading.
///
/// # Errors
/// [`AskError::Silent`] with the way in which the server did not answer, [`AskError::TooLong`] above [`ANSWER_LIMIT`].
pub async fn ask(
    server: SocketAddr,
    source: Option<IpAddr>,
    command: &str,
    within: Duration,
) -> Result<String, AskError> {
    ask_over(None, server, source, command, within).await
}

/// As [`ask`], over TLS if there is any.
///
/// # Errors
/// As [`ask`].
pub async fn ask_over(
    tls: Option<&Tls>,
    server: SocketAddr,
    source: Option<IpAddr>,
    command: &str,
    within: Duration,
) -> Result<String, AskError> {
    match timeout(within, exchange(tls, server, source, command)).await {
        Ok(answer) => answer,
        // A stopped server still connects until its backlog is full, then its SYNs go unanswered: both are a timeout.
        Err(_elapsed) => {
            let text = format!("no answer to {command} from {server} within {} ms", within.as_millis());
            Err(silent(Condition::TimedOut, text))
        }
    }
}

const fn silent(condition: Condition, text: String) -> AskError {
    AskError::Silent { condition, text }
}

async fn exchange(
    tls: Option<&Tls>,
    server: SocketAddr,
    source: Option<IpAddr>,
    command: &str,
) -> Result<String, AskError> {
    let unreachable = |error: io::Error| silent(unconnected(error.kind()), format!("{server}: {error}"));
    let socket = if server.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(unreachable)?;
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0)).map_err(unreachable)?;
    }
    let stream = socket.connect(server).await.map_err(unreachable)?;
    let Some(tls) = tls else { return converse(stream, server, command, ANSWER_LIMIT).await };
    let (config, name) = tls.for_server(server);
    match TlsConnector::from(config).connect(name, stream).await {
        Ok(stream) => converse(stream, server, command, ANSWER_LIMIT).await,
        Err(error) => Err(unagreed(server, &error)
            .unwrap_or_else(|| silent(Condition::Empty, format!("{server}: {}", TlsFault::Closed)))),
    }
}

/// What a server that is no partner for TLS is told as, if that is what an error says.
fn unagreed(server: SocketAddr, error: &io::Error) -> Option<AskError> {
    let fault = TlsFault::in_error(error)?;
    Some(silent(Condition::Unreachable, format!("{server}: {fault}")))
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    server: SocketAddr,
    command: &str,
    limit: usize,
) -> Result<String, AskError> {
    let mut answer = Vec::new();
    let outcome = async {
        stream.write_all(command.as_bytes()).await?;
        stream.flush().await?;
        (&mut stream).take(limit as u64 + 1).read_to_end(&mut answer).await
    }
    .await;
    if answer.len() > limit {
        return Err(AskError::TooLong { command: command.to_owned(), limit });
    }
    if let Some(error) = outcome.as_ref().err().and_then(|error| unagreed(server, error)) {
        return Err(error);
    }
    match outcome {
        // At a connection limit the server closes with our four bytes unread, which arrives as a reset or as an end.
        Ok(_) | Err(_) if answer.is_empty() => Err(silent(
            Condition::Empty,
            format!("{server} closed the connection without a byte of answer to {command}"),
        )),
        Ok(_) => classify(String::from_utf8_lossy(&answer).into_owned()),
        Err(error) => Err(silent(Condition::Empty, format!("{server} broke off its answer to {command}: {error}"))),
    }
}

/// What a failure to connect says. A server at its limit may close so soon after accepting that connecting itself ends
/// with the close.
fn unconnected(error: io::ErrorKind) -> Condition {
    let closed = matches!(error, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
    if closed { Condition::Empty } else { Condition::Unreachable }
}

/// Sorts an answer by what it says: ZooKeeper reports refusals in words.
fn classify(answer: String) -> Result<String, AskError> {
    let head = answer.get(..256).unwrap_or(&answer);
    if head.contains("not currently serving requests") {
        return Err(AskError::Silent { condition: Condition::NotServing, text: answer.trim().to_owned() });
    }
    if head.contains("is not executed because it is not in the whitelist") {
        return Err(AskError::Silent { condition: Condition::Refused, text: answer.trim().to_owned() });
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(30);

    /// A server that answers one connection with `answer`, then closes.
    async fn answering(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_all(answer).await.unwrap();
        });
        address
    }

    async fn condition(answer: &'static [u8]) -> Condition {
        ask(answering(answer).await, None, "srvr", WITHIN).await.unwrap_err().condition()
    }

    #[tokio::test]
    async fn ways_of_not_answering_are_told_apart() {
        assert_eq!(condition(b"").await, Condition::Empty);
        assert_eq!(
            condition(b"This ZooKeeper instance is not currently serving requests\n").await,
            Condition::NotServing
        );
        assert_eq!(condition(b"mntr is not executed because it is not in the whitelist.\n").await, Condition::Refused);
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let refused = ask(free, None, "srvr", WITHIN).await.unwrap_err();
        assert_eq!(refused.condition(), Condition::Unreachable, "{refused}");
    }

    #[tokio::test]
    async fn a_server_that_accepts_and_says_nothing_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = ask(address, None, "srvr", Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(silent.condition(), Condition::TimedOut, "{silent}");
    }

    #[tokio::test]
    async fn a_close_with_unread_bytes_is_empty_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            drop(stream);
        });
        assert_eq!(ask(address, None, "srvr", WITHIN).await.unwrap_err().condition(), Condition::Empty);
    }

    #[test]
    fn a_close_while_connecting_is_empty_too() {
        assert_eq!(unconnected(io::ErrorKind::BrokenPipe), Condition::Empty);
        assert_eq!(unconnected(io::ErrorKind::ConnectionReset), Condition::Empty);
        assert_eq!(unconnected(io::ErrorKind::ConnectionRefused), Condition::Unreachable);
    }

    #[tokio::test]
    async fn long_answers_are_an_error_at_the_limit_only() {
        let address = answering(&[b'x'; 64]).await;
        let talk = async |address: SocketAddr| {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            converse(stream, address, "cons", 64).await
        };
        assert_eq!(talk(address).await.unwrap().len(), 64);
        let address = answering(&[b'x'; 65]).await;
        let error = talk(address).await.unwrap_err();
        assert_eq!(error, AskError::TooLong { command: "cons".to_owned(), limit: 64 });
    }

    #[tokio::test]
    async fn loopback_is_asked_from_another_loopback_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let peer = tokio::spawn(async move { listener.accept().await.unwrap().1 });
        let source = sampler_source(address);
        assert_eq!(source, Some(SAMPLER_SOURCE));
        let _ = ask(address, source, "srvr", WITHIN).await;
        assert_eq!(peer.await.unwrap().ip(), SAMPLER_SOURCE);
        assert_eq!(sampler_source("10.0.0.1:2181".parse().unwrap()), None);
    }
}
