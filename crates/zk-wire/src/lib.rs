//! A lean ZooKeeper client: many sessions on one thread, driven by one event loop. It knows nothing of load
//! testing and hides nothing: no reconnect, no retry, every error by its own name.
//!
//! [`Hub`] drives sessions by events, [`Client`] wraps one session for blocking control work.
//! Protocol: `zookeeper.jute` of Apache ZooKeeper 3.4 to 3.9.

mod alarm;
mod client;
mod code;
mod event;
#[cfg(test)]
mod golden;
mod hub;
mod jute;
mod pool;
mod reply;
mod request;
mod session;
mod socket;
mod submit;
mod tls;
mod turn;
mod wheel;
mod write;

pub use client::{Client, ClientError};
pub use code::ErrorCode;
pub use event::{Auth, ConnectError, ConnectOptions, Disconnect, Event, SessionId, SessionView, SubmitError};
pub use hub::{Hub, SessionKey, Waker};
pub use jute::Malformed;
pub use reply::{Children, MultiResult, MultiResults, Reply, ReplyError, Stat, WatchKind};
pub use request::{CreateMode, MultiOp, Request};
pub use tls::{Tls, TlsError, TlsFault};
pub use write::{MultiWriter, WatchesWriter};
