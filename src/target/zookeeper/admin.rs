//! AdminServer (3.5 and later): the same figures as the four-letter words, as JSON, without whitelist and connection
//! limit. An error comes as HTTP 200 with a field `error`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::four_letter::AskError;
use crate::{sample::Fetcher, target::Condition};

/// One server's AdminServer.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Such as `http://127.0.0.1:8080`.
    base: String,
    fetcher: Fetcher,
}

impl Admin {
    /// The AdminServer at a base address; `None` when no HTTP client can be made.
    #[must_use]
    pub fn new(base: &str) -> Option<Self> {
        Some(Self { base: base.trim_end_matches('/').to_owned(), fetcher: Fetcher::new()? })
    }

    /// Runs one command, such as `monitor`, and gives its JSON object.
    ///
    /// # Errors
    /// [`AskError`], as for four-letter words: unreachable, no answer within the time, an answer that says `error`, one
    /// that is no JSON object, or one that is too long.
    pub async fn ask(&self, command: &str, within: Duration) -> Result<Map<String, Value>, AskError> {
        let url = format!("{}/commands/{command}", self.base);
        read(&url, &self.fetcher.get(&url, within).await?)
    }
}

fn silent(condition: Condition, text: String) -> AskError {
    AskError::Silent { condition, text }
}

fn read(url: &str, body: &[u8]) -> Result<Map<String, Value>, AskError> {
    let Ok(Value::Object(object)) = serde_json::from_slice(body) else {
        return Err(silent(
            Condition::Refused,
            format!("{url} did not answer with a JSON object; is it an AdminServer?"),
        ));
    };
    match object.get("error") {
        None | Some(Value::Null) => Ok(object),
        Some(error) => {
            let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            let not_serving = text.contains("not currently serving requests");
            Err(silent(if not_serving { Condition::NotServing } else { Condition::Refused }, format!("{url}: {text}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn condition(body: &str) -> Condition {
        read("u", body.as_bytes()).unwrap_err().condition()
    }

    #[test]
    fn an_error_in_a_good_answer_is_an_error() {
        assert_eq!(condition(r#"{"command":"nope","error":"Unknown command: nope"}"#), Condition::Refused);
        let not_serving = r#"{"error":"This ZooKeeper instance is not currently serving requests"}"#;
        assert_eq!(condition(not_serving), Condition::NotServing);
        assert_eq!(condition("<html>"), Condition::Refused);
        let good = read("u", br#"{"znode_count":5,"error":null}"#).unwrap();
        assert_eq!(good["znode_count"], 5);
    }

    #[tokio::test]
    async fn nobody_there_is_unreachable() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let admin = Admin::new(&format!("http://{free}/")).unwrap();
        let error = admin.ask("monitor", Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(error.condition(), Condition::Unreachable, "{error}");
    }

    proptest! {
        #[test]
        fn no_body_makes_the_reader_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read("u", &body);
        }
    }
}
