//! One timer wheel for all sessions of a hub. Each session stands in it at most once, as a link in a list, so
//! arming costs no allocation and an idle session 16 bytes. Sessions are armed lazily: an operation does not touch
//! the wheel; a session that comes up looks at its own times and is armed again.

/// Milliseconds of one slot: how late a ping or a deadline may be found out.
const TICK_MS: u64 = 8;
/// Slots, a power of two: one turn of the wheel is 8.2 s. What is due later comes up early and is armed again.
const SLOTS: u64 = 1024;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
    /// `NONE` when not in the wheel.
    slot: u32,
}

const LOOSE: Link = Link { prev: NONE, next: NONE, slot: NONE };

/// The wheel. Times are milliseconds since the hub began.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Vec<u32>,
    /// One bit a slot: whether it holds anything.
    filled: [u64; 16],
    links: Vec<Link>,
    /// The first tick that has not been looked at.
    tick: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self { heads: vec![NONE; 1024], filled: [0; 16], links: Vec::new(), tick: 0 }
    }

    /// Arms (again) the timer of session `index`.
    pub(crate) fn arm(&mut self, index: u32, due_ms: u64) {
        self.disarm(index);
        let at = index as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, LOOSE);
        }
        // Rounded up, so that it never comes up before it is due, and never into a tick already passed.
        let tick = due_ms.div_ceil(TICK_MS).clamp(self.tick, self.tick + SLOTS - 1);
        let slot = slot_of(tick);
        let head = self.heads[slot];
        self.links[at] = Link { prev: NONE, next: head, slot: u32::try_from(slot).unwrap_or(NONE) };
        if head != NONE {
            self.links[head as usize].prev = index;
        }
        self.heads[slot] = index;
        self.filled[slot / 64] |= 1 << (slot % 64);
    }

    /// Takes session `index` out, if it is in.
    pub(crate) fn disarm(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else { return };
        let Link { prev, next, slot } = std::mem::replace(link, LOOSE);
        if slot == NONE {
            return;
        }
        let slot = slot as usize;
        if prev == NONE {
            self.heads[slot] = next;
            if next == NONE {
                self.filled[slot / 64] &= !(1 << (slot % 64));
            }
        } else {
            self.links[prev as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].prev = prev;
        }
    }

    /// Takes out one session whose slot has come, or `None` when there is none until `now_ms`.
    /// One armed while others come up is not seen before the next tick.
    pub(crate) fn pop(&mut self, now_ms: u64) -> Option<u32> {
        let now = now_ms / TICK_MS;
        while self.tick <= now {
            let slot = slot_of(self.tick);
            let head = self.heads[slot];
            if head != NONE {
                self.disarm(head);
                return Some(head);
            }
            // Jump over empty slots: after a long pause there may be many.
            self.tick = match self.next_filled(self.tick + 1) {
                Some(tick) => tick.min(now + 1),
                None => now + 1,
            };
        }
        None
    }

    /// Milliseconds until the next slot that holds a session.
    pub(crate) fn next_in_ms(&self, now_ms: u64) -> Option<u64> {
        self.next_filled(self.tick).map(|tick| (tick * TICK_MS).saturating_sub(now_ms))
    }

    fn next_filled(&self, from: u64) -> Option<u64> {
        let start = slot_of(from);
        let first = self.filled[start / 64] >> (start % 64);
        if first != 0 {
            return Some(from + u64::from(first.trailing_zeros()));
        }
        let mut ahead = 64 - u64::try_from(start % 64).unwrap_or(0);
        for step in 1..=16 {
            let word = self.filled[(start / 64 + step) % 16];
            if word != 0 {
                return Some(from + ahead + u64::from(word.trailing_zeros()));
            }
            ahead += 64;
        }
        None
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<u32>() + self.links.capacity() * size_of::<Link>()
    }
}

fn slot_of(tick: u64) -> usize {
    usize::try_from(tick % SLOTS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Nothing comes up before it is due (unless beyond one turn of the wheel), nor later than one tick after.
        #[test]
        fn timers_come_up_when_due(
            dues in prop::collection::vec(0_u64..8_000, 1..60),
            step in 1_u64..500,
            dropped in prop::collection::vec(any::<bool>(), 60),
        ) {
            let mut wheel = Wheel::new();
            for (index, &due) in dues.iter().enumerate() {
                wheel.arm(u32::try_from(index).unwrap(), due + 5);
                wheel.arm(u32::try_from(index).unwrap(), due);
            }
            let mut left: Vec<Option<u64>> = dues.iter().map(|&due| Some(due)).collect();
            for (index, _) in dropped.iter().enumerate().filter(|&(_, &dropped)| dropped) {
                wheel.disarm(u32::try_from(index).unwrap());
                if let Some(slot) = left.get_mut(index) {
                    *slot = None;
                }
            }
            let mut now = 0;
            while now < 9_000 {
                while let Some(index) = wheel.pop(now) {
                    let due = left[index as usize].take();
                    prop_assert!(due.is_some_and(|due| due <= now), "{index} at {now}: {due:?}");
                }
                for due in left.iter().flatten() {
                    prop_assert!(due + TICK_MS > now, "due at {due} but still there at {now}");
                    prop_assert!(wheel.next_in_ms(now).is_some());
                }
                now += step;
            }
            prop_assert!(left.iter().all(Option::is_none));
            prop_assert_eq!(wheel.next_in_ms(now), None);
        }
    }

    #[test]
    fn a_timer_beyond_one_turn_comes_up_early_and_a_late_look_finds_all() {
        let mut wheel = Wheel::new();
        wheel.arm(3, 1_000_000);
        assert!(wheel.next_in_ms(0).is_some_and(|ms| ms < 8_200));
        assert_eq!(wheel.pop(8_000), None);
        assert_eq!(wheel.pop(500_000), Some(3));
        wheel.arm(3, 1);
        assert_eq!(wheel.pop(500_008), Some(3));
    }
}
