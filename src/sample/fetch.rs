//! Fetches figures over HTTP: AdminServer, Prometheus provider, node_exporter. Every way of not answering is told apart.

use std::time::Duration;

/// Longest body that is read, in bytes: `/metrics` of a large ensemble has 200 KB.
pub const BODY_LIMIT: usize = 8 << 20;

/// Why there is no body to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("{url}: {cause}")]
    Unreachable { url: String, cause: String },
    #[error("{url} broke off: {cause}")]
    Broken { url: String, cause: String },
    #[error("no answer from {url} within {within_ms} ms")]
    TimedOut { url: String, within_ms: u128 },
    #[error("{url} answered {status}")]
    Refused { url: String, status: u16 },
    #[error("{url} answered with more than {BODY_LIMIT} bytes")]
    TooLong { url: String },
}

/// An HTTP client for a target's figures.
#[derive(Debug, Clone)]
pub struct Fetcher(reqwest::Client);

impl Fetcher {
    /// `None` when no HTTP client can be made.
    #[must_use]
    pub fn new() -> Option<Self> {
        // A proxy of the environment is for the world outside, not for the target.
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().ok()?;
        Some(Self(client))
    }

    /// The body behind a URL. `within` spans connecting and reading.
    ///
    /// # Errors
    /// [`FetchError`], also for a status other than success and a body above [`BODY_LIMIT`].
    pub async fn get(&self, url: &str, within: Duration) -> Result<Vec<u8>, FetchError> {
        match tokio::time::timeout(within, self.exchange(url)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(FetchError::TimedOut { url: url.to_owned(), within_ms: within.as_millis() }),
        }
    }

    async fn exchange(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let broken = |error: reqwest::Error| {
            let (url, cause) = (url.to_owned(), innermost(&error));
            if error.is_connect() { FetchError::Unreachable { url, cause } } else { FetchError::Broken { url, cause } }
        };
        let mut response = self.0.get(url).send().await.map_err(broken)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&chunk);
            if body.len() > BODY_LIMIT {
                return Err(FetchError::TooLong { url: url.to_owned() });
            }
        }
        if status.is_success() {
            Ok(body)
        } else {
            Err(FetchError::Refused { url: url.to_owned(), status: status.as_u16() })
        }
    }
}

/// The cause that says something: reqwest's own text is "error sending request".
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
