//! Bytes worked out by hand from `zookeeper.jute`, in both directions, and decoding of any bytes.

use proptest::prelude::*;

use crate::{
    code::ErrorCode,
    reply::{self, Header, MultiResult, Reply, WatchKind, Welcome},
    request::{self, CreateMode, MultiOp, Op, Request},
    write::WatchesWriter,
};

/// `"00000001 'ab' ff"`: hexadecimal digits, and text in quotes.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
        } else {
            let digits: Vec<u8> = part.bytes().filter(u8::is_ascii_hexdigit).collect();
            for pair in digits.chunks(2) {
                out.push(u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
            }
        }
    }
    out
}

fn body(request: Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.body(&mut out);
    out
}

const ACL: &str = "00000001 0000001f 00000005 'world' 00000006 'anyone'";
const STAT: &str = "0000000000000001 0000000000000002 0000000000000003 0000000000000004 \
                    00000005 00000006 00000007 0000000000000008 00000009 0000000a 000000000000000b";

#[test]
fn requests_have_the_bytes_of_the_protocol() {
    let create = format!("00000002 '/a' 00000001 'x' {ACL} 00000003");
    let mode = CreateMode::EphemeralSequential;
    assert_eq!(body(Request::Create { path: "/a", data: b"x", mode }), bytes(&create));
    assert_eq!(body(Request::Create2 { path: "/a", data: b"x", mode }), bytes(&create));
    assert_eq!(body(Request::Delete { path: "/a", version: -1 }), bytes("00000002 '/a' ffffffff"));
    assert_eq!(body(Request::Exists { path: "/a", watch: true }), bytes("00000002 '/a' 01"));
    assert_eq!(body(Request::GetData { path: "/a", watch: false }), bytes("00000002 '/a' 00"));
    assert_eq!(body(Request::GetChildren2 { path: "/a", watch: true }), bytes("00000002 '/a' 01"));
    assert_eq!(
        body(Request::SetData { path: "/a", data: b"yz", version: 7 }),
        bytes("00000002 '/a' 00000002 'yz' 00000007")
    );
    assert_eq!(body(Request::Sync { path: "/" }), bytes("00000001 '/'"));
    assert_eq!(
        body(Request::AddAuth { scheme: "digest", auth: b"u:p" }),
        bytes("00000000 00000006 'digest' 00000003 'u:p'")
    );
    assert_eq!(
        body(Request::Multi(&[
            MultiOp::Create { path: "/a", data: b"", mode: CreateMode::Persistent },
            MultiOp::Delete { path: "/b", version: 1 },
            MultiOp::SetData { path: "/c", data: b"d", version: 2 },
            MultiOp::Check { path: "/e", version: 3 },
        ])),
        bytes(&format!(
            "00000001 00 ffffffff 00000002 '/a' 00000000 {ACL} 00000000 \
             00000002 00 ffffffff 00000002 '/b' 00000001 \
             00000005 00 ffffffff 00000002 '/c' 00000001 'd' 00000002 \
             0000000d 00 ffffffff 00000002 '/e' 00000003 \
             ffffffff 01 ffffffff"
        ))
    );
}

#[test]
fn whole_frames_have_the_bytes_of_the_protocol() {
    let mut out = Vec::new();
    request::connect(&mut out, 5, 30_000, 9, &[0xab; 16]);
    let password = "ab".repeat(16);
    let connect = format!("0000002d 00000000 0000000000000005 00007530 0000000000000009 00000010 {password} 00");
    assert_eq!(out, bytes(&connect));
    out.clear();
    request::ping(&mut out);
    request::close(&mut out, 3);
    assert_eq!(out, bytes("00000008 fffffffe 0000000b 00000008 00000003 fffffff5"));
    let codes = [Op::Create, Op::Delete, Op::Exists, Op::GetData, Op::SetData, Op::GetChildren, Op::Sync];
    assert_eq!(codes.map(Op::code), [1, 2, 3, 4, 5, 8, 9]);
    let codes = [Op::GetChildren2, Op::Multi, Op::Create2, Op::AddAuth, Op::SetWatches];
    assert_eq!(codes.map(Op::code), [12, 14, 15, 100, 101]);
}

#[test]
fn watches_written_one_by_one_are_those_of_lists() {
    let lists = Request::SetWatches { relative_zxid: i64::MAX, data: &["/a", "/b"], exist: &[], child: &["/c"] };
    let expected = bytes("7fffffffffffffff 00000002 00000002 '/a' 00000002 '/b' 00000000 00000001 00000002 '/c'");
    assert_eq!(body(lists), expected);
    let mut out = Vec::new();
    let mut writer = WatchesWriter::new(&mut out, i64::MAX);
    writer.data("/a");
    writer.data("/b");
    writer.child("/c");
    assert_eq!((writer.paths(), writer.bytes()), (3, expected.len()));
    assert!(writer.finish());
    assert_eq!(out, expected);
    out.clear();
    assert!(WatchesWriter::new(&mut out, 0).finish());
    assert_eq!(out, bytes("0000000000000000 00000000 00000000 00000000"));
    out.clear();
    let mut writer = WatchesWriter::new(&mut out, 0);
    writer.child("/c");
    writer.data("/a");
    assert!(!writer.finish());
}

#[test]
fn replies_are_read_from_the_bytes_of_the_protocol() {
    let frame = bytes("00000007 0000000000000009 ffffff9b");
    let (header, rest) = Header::read(&frame).unwrap();
    assert_eq!((header.xid, header.zxid, ErrorCode::from_wire(header.err)), (7, 9, ErrorCode::NoNode));
    assert!(rest.is_empty());

    let frame = bytes(&format!("00000000 00007530 0000000000000009 00000010 {} 00", "ab".repeat(16)));
    let welcome = Welcome { timeout_ms: 30_000, id: 9, password: [0xab; 16] };
    assert_eq!(Welcome::read(&frame), Ok(welcome));
    assert_eq!(Welcome::read(&frame[..36]), Ok(welcome), "servers before 3.4 end here");

    let frame = bytes(STAT);
    let stat = reply::body(Op::Exists, &frame).unwrap().stat().unwrap();
    assert_eq!((stat.czxid, stat.mzxid, stat.ctime_ms, stat.mtime_ms), (1, 2, 3, 4));
    assert_eq!((stat.version, stat.cversion, stat.aversion, stat.ephemeral_owner), (5, 6, 7, 8));
    assert_eq!((stat.data_bytes, stat.num_children, stat.pzxid), (9, 10, 11));

    let frame = bytes(&format!("ffffffff {STAT}"));
    let reply = reply::body(Op::GetData, &frame).unwrap();
    assert_eq!((reply.data(), reply.stat()), (Some(&b""[..]), Some(stat)), "null data is empty");

    let frame = bytes(&format!("00000002 00000001 'a' 00000002 'bc' {STAT}"));
    let reply = reply::body(Op::GetChildren2, &frame).unwrap();
    assert_eq!(reply.children().unwrap().collect::<Vec<_>>(), ["a", "bc"]);
    assert_eq!(reply.stat(), Some(stat));

    let frame = bytes("00000002 '/a'");
    assert_eq!(reply::body(Op::Create, &frame).unwrap().created(), Some("/a"));
    assert!(matches!(reply::body(Op::Sync, &frame), Ok(Reply::Synced { path: "/a" })));

    let frame = bytes("00000004 00000003 00000002 '/a'");
    assert_eq!(reply::watch(&frame), Ok((WatchKind::ChildrenChanged, "/a")));
}

#[test]
fn results_of_a_multi_name_the_guilty_part() {
    let frame = bytes(&format!(
        "00000001 00 00000000 00000002 '/a' 00000005 00 00000000 {STAT} 00000002 00 00000000 ffffffff 01 ffffffff"
    ));
    let results = reply::body(Op::Multi, &frame).unwrap().multi().unwrap();
    assert_eq!(results.error(), None);
    let results: Vec<_> = results.collect();
    assert_eq!(results[0], MultiResult::Created { path: "/a" });
    assert!(matches!(results[1], MultiResult::Stat(_)));
    assert_eq!(results[2..], [MultiResult::Done]);

    let frame = bytes(
        "ffffffff 00 00000000 00000000 ffffffff 00 ffffff9b ffffff9b ffffffff 00 fffffffe fffffffe ffffffff 01 ffffffff",
    );
    let results = reply::body(Op::Multi, &frame).unwrap().multi().unwrap();
    assert_eq!(results.error(), Some((1, ErrorCode::NoNode)));
    assert_eq!(results.count(), 3);
}

const OPS: [Op; 12] = [
    Op::Create,
    Op::Create2,
    Op::Delete,
    Op::Exists,
    Op::GetData,
    Op::SetData,
    Op::GetChildren,
    Op::GetChildren2,
    Op::Sync,
    Op::Multi,
    Op::SetWatches,
    Op::AddAuth,
];

proptest! {
    /// Any bytes give a value or an error; a value borrows, so nothing can be allocated by a length in them.
    #[test]
    fn any_bytes_are_a_value_or_an_error(
        op in prop::sample::select(&OPS[..]),
        frame in prop::collection::vec(prop_oneof![3 => 0_u8..4, 1 => any::<u8>()], 0..200),
    ) {
        let _ = Header::read(&frame);
        let _ = Welcome::read(&frame);
        let _ = reply::watch(&frame);
        if let Ok(reply) = reply::body(op, &frame) {
            // What was checked can be gone through to its end.
            if let Some(children) = reply.children() {
                prop_assert_eq!(children.len(), children.count());
            }
            if let Some(results) = reply.multi() {
                prop_assert!(results.count() * 9 <= frame.len());
            }
        }
    }
}
