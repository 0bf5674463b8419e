//! The sessions that carry requests, and the records that they read and write.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use zk_wire::{ConnectOptions, CreateMode, ErrorCode, Event, Hub, ReplyError, Request, SessionKey};

use super::{Options, SET};
use crate::{
    model::{Incident, IncidentKind},
    target::zookeeper::ZookeeperSpec,
    workload::{
        Site,
        paced::{Service, Ticket},
    },
};

/// How long after a connection is lost it is opened again.
const RETRY: Duration = Duration::from_secs(1);
/// Creates of records under way.
const CREATING_MAX: u32 = 128;
/// The longest that closing all sessions may take: less than the engine waits for a unit.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// What a reply belongs to.
#[derive(Debug, Clone, Copy)]
enum Tag {
    Create,
    Request(Ticket),
}

/// One session and when it may be opened again.
#[derive(Debug, Default)]
struct Seat {
    key: Option<SessionKey>,
    connected: bool,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Sessions {
    hub: Hub<Tag>,
    state: State,
}

/// All but the hub.
#[derive(Debug)]
struct State {
    options: Options,
    site: Site,
    spec: ZookeeperSpec,
    seats: Vec<Seat>,
    next: usize,
    /// Records whose creation was asked, and those that are there.
    asked: u32,
    created: u32,
    random: SmallRng,
    value: Vec<u8>,
    path: String,
    failure: Option<(bool, String)>,
    closed: u32,
    expired: u32,
}

impl Sessions {
    pub(super) fn new(options: Options, site: Site) -> std::io::Result<Self> {
        let spec = site.zookeeper()?.clone();
        let state = State {
            seats: (0..options.sessions).map(|_| Seat::default()).collect(),
            next: 0,
            asked: 0,
            created: 0,
            random: SmallRng::seed_from_u64(site.seed),
            value: vec![b'x'; options.value_bytes as usize],
            path: String::new(),
            failure: None,
            closed: 0,
            expired: 0,
            options,
            site,
            spec,
        };
        let mut hub = Hub::new()?;
        if let Some(bytes) = state.site.max_request_bytes {
            hub.set_max_request_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(Self { hub, state })
    }
}

impl State {
    fn fail(&mut self, limit: bool, text: String) {
        self.failure.get_or_insert((limit, text));
    }

    fn path_of(&mut self, record: u32) {
        self.path.clear();
        // Writing to a String cannot fail.
        let _ = write!(self.path, "{}/r{record}", self.site.root);
    }

    /// Opens what is not open.
    fn open(&mut self, hub: &mut Hub<Tag>) {
        let now = Instant::now();
        for index in 0..self.seats.len() {
            let seat = &self.seats[index];
            if seat.key.is_some() || seat.retry_at.is_some_and(|at| at > now) {
                continue;
            }
            let server = self.spec.servers[index % self.spec.servers.len()];
            let sources = &self.site.sources;
            let in_flight_max = u32::try_from(self.options.in_flight_max).unwrap_or(u32::MAX);
            let options = ConnectOptions {
                source: (!sources.is_empty()).then(|| sources[(index / self.spec.servers.len()) % sources.len()]),
                session_timeout_ms: self.options.session_timeout_ms,
                connect_timeout: Duration::from_secs(10),
                max_in_flight: in_flight_max,
                ..self.spec.connect_options(server)
            };
            match hub.connect(&options) {
                Ok(key) => self.seats[index].key = Some(key),
                Err(error) => {
                    self.seats[index].retry_at = Some(now + RETRY);
                    self.fail(false, format!("no session to {server}: {error}"));
                }
            }
        }
    }

    /// The next session that is connected, in turns.
    fn seat(&mut self) -> Option<SessionKey> {
        for _ in 0..self.seats.len() {
            self.next = (self.next + 1) % self.seats.len();
            let seat = &self.seats[self.next];
            if seat.connected {
                return seat.key;
            }
        }
        None
    }

    fn create(&mut self, hub: &mut Hub<Tag>) {
        while self.asked < self.options.records && self.asked - self.created < CREATING_MAX {
            let Some(session) = self.seat() else { return };
            self.path_of(self.asked);
            let request = Request::Create { path: &self.path, data: &self.value, mode: CreateMode::Persistent };
            if let Err(error) = hub.submit(session, Tag::Create, &request) {
                self.fail(false, format!("{} could not be created: {error}", self.path));
                return;
            }
            self.asked += 1;
        }
    }

    fn on_event(&mut self, event: &Event<'_, Tag>, ended: &mut dyn FnMut(Ticket, Result<(), &'static str>)) {
        match *event {
            Event::Connected { session, .. } => {
                if let Some(seat) = self.seat_of(session) {
                    (seat.connected, seat.retry_at) = (true, None);
                }
            }
            Event::Reply { tag: Tag::Request(ticket), ref result, .. } => {
                ended(ticket, result.as_ref().map(|_| ()).map_err(|error| error.as_str()));
            }
            Event::Reply { tag: Tag::Create, ref result, .. } => match result {
                Ok(_) | Err(ReplyError::Code(ErrorCode::NodeExists)) => self.created += 1,
                Err(error) => self.fail(false, format!("a record could not be created: {error}")),
            },
            Event::Disconnected { session, cause } => {
                let was_up = self.lose(session);
                self.closed += u32::from(was_up);
                if !was_up && self.seats.iter().all(|seat| !seat.connected) {
                    self.fail(cause.is_before_session(), format!("no session to the target: {cause}"));
                }
            }
            Event::Expired { session } => {
                self.lose(session);
                self.expired += 1;
            }
            Event::AuthFailed { session } => {
                self.lose(session);
                self.fail(false, "the target refused the digest credentials of a session".to_owned());
            }
            Event::Closed { session } => drop(self.lose(session)),
            Event::Watch { .. } => {}
        }
    }

    fn seat_of(&mut self, session: SessionKey) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.key == Some(session))
    }

    /// Whether the session was connected.
    fn lose(&mut self, session: SessionKey) -> bool {
        self.seat_of(session).is_some_and(|seat| {
            (seat.key, seat.retry_at) = (None, Some(Instant::now() + RETRY));
            std::mem::take(&mut seat.connected)
        })
    }
}

impl Service for Sessions {
    fn make_ready(&mut self) -> Result<bool, (bool, String)> {
        self.state.failure = None;
        self.state.open(&mut self.hub);
        if self.state.seats.iter().all(|seat| seat.connected) {
            self.state.create(&mut self.hub);
        }
        match self.state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.state.created == self.state.options.records),
        }
    }

    fn send(&mut self, ticket: Ticket) -> Result<(), &'static str> {
        let state = &mut self.state;
        let record = state.random.random_range(0..state.options.records);
        state.path_of(record);
        let session = state.seat().ok_or("not_connected")?;
        let request = if ticket.operation == SET {
            Request::SetData { path: &state.path, data: &state.value, version: -1 }
        } else {
            Request::GetData { path: &state.path, watch: false }
        };
        self.hub.submit(session, Tag::Request(ticket), &request).map_err(|_refused| "not_sent")
    }

    fn turn(&mut self, wait: Duration, ended: &mut dyn FnMut(Ticket, Result<(), &'static str>)) {
        let state = &mut self.state;
        if state.created == state.options.records {
            state.open(&mut self.hub);
        }
        if let Err(error) = self.hub.turn(wait, |_, event| state.on_event(&event, ended)) {
            state.fail(false, format!("the event loop failed: {error}"));
        }
    }

    fn incidents(&mut self) -> Vec<Incident> {
        let (closed, expired) = (std::mem::take(&mut self.state.closed), std::mem::take(&mut self.state.expired));
        let told = [
            (
                closed,
                IncidentKind::ConnectionClosed,
                "connections of the load were closed by the target and attached again",
            ),
            (expired, IncidentKind::SessionExpired, "sessions of the load expired"),
        ];
        let at_ns = self.state.site.clock.now_ns();
        let incident = |(count, kind, words): (u32, IncidentKind, &str)| Incident {
            at_ns,
            kind,
            node: String::new(),
            text: format!("{count} {words}"),
            amount: f64::from(count),
        };
        told.into_iter().filter(|(count, ..)| *count > 0).map(incident).collect()
    }

    fn close(&mut self) {
        let give_up = Instant::now() + CLOSE_LIMIT;
        let hub = &mut self.hub;
        self.state.seats.iter_mut().for_each(|seat| {
            if seat.key.is_some_and(|key| hub.close(key).is_err()) {
                seat.key = None;
            }
        });
        while self.state.seats.iter().any(|seat| seat.key.is_some()) && Instant::now() < give_up {
            let state = &mut self.state;
            if self.hub.turn(Duration::from_millis(50), |_, event| state.on_event(&event, &mut |_, _| {})).is_err() {
                return;
            }
        }
    }
}
