//! Jute, ZooKeeper's record format: big-endian numbers, strings and buffers behind a 4-byte length
//! (-1 is null), vectors behind a 4-byte count. Reads borrow; nothing is allocated by a length not yet checked.

/// Bytes that are no record of the kind expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed record: {0}")]
pub struct Malformed(pub &'static str);

/// Takes values off the front of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed("cut short"))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.take().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.take().map(i64::from_be_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        self.take::<1>().map(|[byte]| byte != 0)
    }

    /// A buffer; null reads as empty.
    pub(crate) fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        let len = match self.int()? {
            -1 => 0,
            len => usize::try_from(len).map_err(|_negative| Malformed("negative length"))?,
        };
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Malformed("length beyond the frame"))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn string(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.buffer()?).map_err(|_invalid| Malformed("text is not UTF-8"))
    }

    /// The count of a vector whose elements take at least `min_bytes` each; null reads as 0.
    pub(crate) fn count(&mut self, min_bytes: usize) -> Result<usize, Malformed> {
        let count = match self.int()? {
            -1 => 0,
            count => usize::try_from(count).map_err(|_negative| Malformed("negative count"))?,
        };
        if count > self.rest.len() / min_bytes { Err(Malformed("count beyond the frame")) } else { Ok(count) }
    }
}

/// Appends values to a frame.
pub(crate) trait Write {
    fn int(&mut self, value: i32);
    fn long(&mut self, value: i64);
    fn bool(&mut self, value: bool);
    fn buffer(&mut self, value: &[u8]);
    fn string(&mut self, value: &str) {
        self.buffer(value.as_bytes());
    }
}

impl Write for Vec<u8> {
    fn int(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn long(&mut self, value: i64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn bool(&mut self, value: bool) {
        self.push(u8::from(value));
    }

    fn buffer(&mut self, value: &[u8]) {
        self.int(len_i32(value.len()));
        self.extend_from_slice(value);
    }
}

/// A length as the wire has it. One that does not fit makes a frame far beyond every limit, which is refused later.
pub(crate) fn len_i32(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

/// Begins a frame: leaves room for its length. Returns where it starts.
pub(crate) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.int(0);
    start
}

/// Ends the frame begun at `start`: writes its length and returns it (without the 4 bytes of the length itself).
pub(crate) fn end_frame(out: &mut [u8], start: usize) -> usize {
    let len = out.len() - start - 4;
    put_int(out, start, len_i32(len));
    len
}

/// Overwrites the number at `at`.
pub(crate) fn put_int(out: &mut [u8], at: usize, value: i32) {
    out[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
