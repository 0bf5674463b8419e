//! Who may talk to the server: any web page can reach loopback, so the Host must be this server's and a change must
//! come from its own pages or from no page at all.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{AppState, error::Error};

/// Scripts of this server only. Inline styles are what templates use for widths of bars.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Headers that every answer has, unless its handler has set a stricter one.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Refuses what does not come from this server's own pages or from a program.
pub(super) async fn check(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let mut response = match refusal(request.method(), request.headers(), state.config.server.listen.ip()) {
        None => next.run(request).await,
        Some(reason) => render(Error::Forbidden(reason), request.uri().path()),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The rendering that fits the path.
pub(super) fn render(error: Error, path: &str) -> Response {
    if path.starts_with("/api/") || path == "/healthz" { error.into_response() } else { error.into_page() }
}

fn refusal(method: &Method, headers: &HeaderMap, bound: IpAddr) -> Option<String> {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let Some(host) = text(header::HOST) else { return Some("the request names no Host".to_owned()) };
    // Only the name counts: a forwarded port (ssh -L) is another one, and a rebinding attack cannot choose the name.
    if !is_own(host, bound) {
        return Some(format!("the Host {host:?} is not this server; use localhost or {bound}"));
    }
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    // `same-site` is refused too: another port of this machine is the same site.
    let site = text(header::HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Some("a change must come from this server's own pages, or from a program".to_owned());
    }
    let origin = text(header::ORIGIN)?;
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) == Some(host);
    (!own).then(|| format!("a change from the origin {origin:?} is not allowed"))
}

fn is_own(host: &str, bound: IpAddr) -> bool {
    let Ok(authority) = host.parse::<axum::http::uri::Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback() || address == bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: &Method, pairs: &[(&'static str, &'static str)]) -> bool {
        let headers = pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_static(value)));
        refusal(method, &headers.collect(), IpAddr::from([127, 0, 0, 1])).is_some()
    }

    #[test]
    fn loopback_names_are_this_server() {
        for host in ["localhost", "LOCALHOST:7117", "127.0.0.1:7117", "127.0.0.2", "[::1]:80"] {
            assert!(!refused(&Method::GET, &[("host", host)]), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "a@localhost@b"]
        {
            assert!(refused(&Method::GET, &[("host", host)]), "{host}");
        }
        assert!(refused(&Method::GET, &[]), "no host");
    }

    #[test]
    fn a_change_comes_from_own_pages_or_from_a_program() {
        let host = ("host", "localhost:7117");
        assert!(!refused(&Method::POST, &[host]));
        assert!(!refused(
            &Method::POST,
            &[host, ("origin", "http://localhost:7117"), ("sec-fetch-site", "same-origin")]
        ));
        for origin in ["http://evil.example", "null", "http://localhost:3000", "http://localhost:7117.evil.example"] {
            assert!(refused(&Method::POST, &[host, ("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(refused(&Method::DELETE, &[host, ("sec-fetch-site", site)]), "{site}");
        }
        assert!(!refused(&Method::GET, &[host, ("sec-fetch-site", "cross-site")]), "a link to a page is no change");
    }
}
