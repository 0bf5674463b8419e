//! Reads the answer of `srvr`: cheap for the server, allowed everywhere, much alike from 3.4 to 3.9. Does no I/O.

/// What `srvr` says. A figure that is absent or not a number is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Srvr {
    /// Without the date of the build, and without what a build has left unfilled: Debian's says
    /// `3.8.0-${mvngit.commit.id}`.
    pub version: String,
    /// `leader`, `follower`, `observer`, `standalone`, `read-only`; empty when it is not said.
    pub mode: String,
    pub received: Option<u64>,
    pub sent: Option<u64>,
    /// The connection that asks is one of them.
    pub connections: Option<u64>,
    pub outstanding: Option<u64>,
    /// The leader's epoch in the high half, the number of the transaction within it in the low half.
    pub zxid: Option<u64>,
    pub znodes: Option<u64>,
}

impl Srvr {
    /// Reads an answer; lines that it does not know are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut srvr = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "Zookeeper version" => {
                    let version = value.split(',').next().unwrap_or_default();
                    srvr.version = version.split("-${").next().unwrap_or_default().trim().to_owned();
                }
                "Mode" => value.clone_into(&mut srvr.mode),
                "Received" => srvr.received = count(value),
                "Sent" => srvr.sent = count(value),
                "Connections" => srvr.connections = count(value),
                "Outstanding" => srvr.outstanding = count(value),
                "Zxid" => srvr.zxid = hex(value),
                "Node count" => srvr.znodes = count(value),
                _ => {}
            }
        }
        srvr
    }

    /// Epoch and number of the last transaction.
    #[must_use]
    pub fn epoch_and_number(&self) -> Option<(u64, u64)> {
        self.zxid.map(|zxid| (zxid >> 32, zxid & 0xffff_ffff))
    }
}

/// A number that a server wrote as an integer or as a float; both happen, by version and metrics provider.
#[must_use]
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// As [`number`], for counts: negative ones mean "not known yet" and are none.
#[must_use]
pub(super) fn count(text: &str) -> Option<u64> {
    text.trim().parse().ok().or_else(|| number(text).and_then(whole))
}

/// A count that came as a float.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
pub(super) fn whole(value: f64) -> Option<u64> {
    (0.0..9e15).contains(&value).then(|| value.round() as u64)
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V34: &str = "Zookeeper version: 3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT\n\
        Latency min/avg/max: 0/0/104\nReceived: 1204\nSent: 1203\nConnections: 13\nOutstanding: 0\n\
        Zxid: 0x30000a1b2\nMode: follower\nNode count: 5081\n";
    const V35: &str = "Zookeeper version: 3.5.10-6e4bce3, built on 05/11/2022 08:29 GMT\n\
        Latency min/avg/max: 0/1/22\nReceived: 41\nSent: 40\nConnections: 1\nOutstanding: 0\nZxid: 0x100000002\n\
        Mode: leader\nNode count: 7\nProposal sizes last/min/max: 32/32/92\n";
    const V38: &str = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\n\
        Latency min/avg/max: 0/0.25/3\nReceived: 2\nSent: 1\nConnections: 1\nOutstanding: 0\nZxid: 0x0\n\
        Mode: standalone\nNode count: 5\n";

    #[test]
    fn answers_of_three_versions_are_read() {
        let srvr = Srvr::parse(V34);
        assert_eq!(srvr.version, "3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf");
        assert_eq!((srvr.mode.as_str(), srvr.znodes), ("follower", Some(5_081)));
        assert_eq!(srvr.epoch_and_number(), Some((3, 0xa1b2)));
        let srvr = Srvr::parse(V35);
        assert_eq!((srvr.mode.as_str(), srvr.received, srvr.sent), ("leader", Some(41), Some(40)));
        let srvr = Srvr::parse(V38);
        assert_eq!(srvr.version, "3.8.0");
        let figures = (srvr.connections, srvr.outstanding, srvr.zxid, srvr.znodes);
        assert_eq!(figures, (Some(1), Some(0), Some(0), Some(5)));
    }

    #[test]
    fn other_texts_have_no_figures_rather_than_zeros() {
        let texts = ["", "This ZooKeeper instance is not currently serving requests\n", "srvr is not executed\n"];
        for text in texts {
            assert_eq!(Srvr::parse(text), Srvr::default(), "{text}");
        }
    }

    #[test]
    fn counts_come_as_integers_and_floats() {
        assert_eq!(count("5"), Some(5));
        assert_eq!(count(" 5.0 "), Some(5));
        assert_eq!(count("1.25E7"), Some(12_500_000));
        assert_eq!(count("18446744073709551615"), Some(u64::MAX));
        for none in ["-1", "-1.0", "NaN", "inf", "", "many"] {
            assert_eq!(count(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(?s).{0,400}") {
            let _ = Srvr::parse(&text);
        }

        #[test]
        fn no_value_makes_the_reader_panic(key in "Zxid|Received|Node count|Mode", value in "[0-9a-fxE.+-]{0,30}") {
            let _ = Srvr::parse(&format!("{key}: {value}\n")).epoch_and_number();
        }
    }
}
