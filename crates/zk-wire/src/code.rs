//! What a server may answer instead of a result. The numbers are those of
//! `org.apache.zookeeper.KeeperException.Code` (3.4 to 3.9).

use std::fmt;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// An error code of the ZooKeeper protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
            /// A number that no version known here uses.
            Unknown(i32),
        }

        impl ErrorCode {
            /// Every code that has a name, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The code of a number on the wire; 0 means success and is no code.
            #[must_use]
            pub const fn from_wire(number: i32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// The number on the wire.
            #[must_use]
            pub const fn to_wire(self) -> i32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Unknown(number) => number,
                }
            }

            /// The stable name, such as `no_node`; every unknown number is `unknown`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown(_) => "unknown",
                }
            }
        }
    };
}

error_codes! {
    SystemError = -1, "system_error";
    RuntimeInconsistency = -2, "runtime_inconsistency";
    DataInconsistency = -3, "data_inconsistency";
    ConnectionLoss = -4, "connection_loss";
    MarshallingError = -5, "marshalling_error";
    Unimplemented = -6, "unimplemented";
    OperationTimeout = -7, "operation_timeout";
    BadArguments = -8, "bad_arguments";
    InvalidState = -9, "invalid_state";
    UnknownSession = -12, "unknown_session";
    NewConfigNoQuorum = -13, "new_config_no_quorum";
    ReconfigInProgress = -14, "reconfig_in_progress";
    ApiError = -100, "api_error";
    NoNode = -101, "no_node";
    NoAuth = -102, "no_auth";
    BadVersion = -103, "bad_version";
    NoChildrenForEphemerals = -108, "no_children_for_ephemerals";
    NodeExists = -110, "node_exists";
    NotEmpty = -111, "not_empty";
    SessionExpired = -112, "session_expired";
    InvalidCallback = -113, "invalid_callback";
    InvalidAcl = -114, "invalid_acl";
    AuthFailed = -115, "auth_failed";
    Closing = -116, "closing";
    Nothing = -117, "nothing";
    SessionMoved = -118, "session_moved";
    NotReadOnly = -119, "not_read_only";
    EphemeralOnLocalSession = -120, "ephemeral_on_local_session";
    NoWatcher = -121, "no_watcher";
    RequestTimeout = -122, "request_timeout";
    ReconfigDisabled = -123, "reconfig_disabled";
    SessionClosedRequireSaslAuth = -124, "session_closed_require_sasl_auth";
    QuotaExceeded = -125, "quota_exceeded";
    /// The server's request throttler gave up on a request that had waited too long (3.7 and later).
    ThrottledOp = -127, "throttled_op";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Unknown(number) = self { write!(f, "unknown ({number})") } else { f.write_str(self.as_str()) }
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_distinct_and_go_both_ways() {
        let mut names = std::collections::HashSet::new();
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_wire(code.to_wire()), code);
            assert!(names.insert(code.as_str()), "{code} twice");
        }
        assert_eq!(ErrorCode::from_wire(-9999), ErrorCode::Unknown(-9999));
        assert_eq!(ErrorCode::from_wire(-101).as_str(), "no_node");
    }
}
