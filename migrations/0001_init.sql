-- The database of one Rampart server. Never edit this file once it has been released: add the next one.
--
-- Times are absolute nanoseconds since the Unix epoch (`_ns`), as Rampart's monotonic clock counts them.
-- Shares are 0..1. JSON columns hold the model's own serialisation. Loads are in the unit of the run's axis.
-- Everything of a run hangs on `runs`, and within it on the key (arm, step, trial, unit, node, stream, operation,
-- outcome, clock): only as much of the key as a table needs stands in it.

-- One row a run: what was asked, where it stands, what it found. Only the journal writes it.
create table runs (
    id text primary key not null,          -- UUID v7, hyphenated: sorts by the time it was made
    scenario text not null,                -- the scenario's name
    scenario_text text not null,           -- the file as it was
    outline text not null,                 -- JSON: what the scenario came to on this configuration when it was asked
    target text not null,                  -- the target's name, of the configuration or of the recipe
    workload text not null,
    axis text not null,                    -- what is raised, such as domains
    unit text not null,                    -- the unit of loads
    origin text not null check (origin in ('page', 'api', 'command line')),
    rampart_version text not null,         -- the program that ran it
    utc_offset_s integer not null,         -- the server's local offset when it was asked, seconds east of UTC
    state text not null check (state in ('queued', 'running', 'finished', 'interrupted')),
    status text check (status in ('capacity_found', 'not_reached', 'inconclusive', 'invalid', 'failed', 'aborted')),
    stop_code text,                        -- absent while it goes on, and when the server went away
    last_good integer,                     -- the highest load that held
    first_bad integer,                     -- the lowest load that broke
    sentence text,                         -- the answer in words
    verdict text,                          -- JSON: the whole verdict with its steps; absent when interrupted
    created_ns integer not null,
    started_ns integer,
    ended_ns integer,
    root text,                             -- everything the run creates on its target lies under it
    inventory text,                        -- JSON: nodes, versions, settings and limits, read before the load
    phase text,                            -- JSON: what it is doing; absent when it is not running
    last_seq integer not null default 0    -- the number of its newest event
) strict, without rowid;
create index runs_by_state on runs (state);

-- What happened, in order: every event but samples and progress. The number is what `Last-Event-ID` names.
-- A trial's and a verdict's body stand in `trials` and `runs` and are not stored twice.
create table events (
    run_id text not null references runs (id) on delete cascade,
    seq integer not null,                  -- 1, 2, 3 within a run, without gaps
    at_ns integer not null,
    kind text not null,
    body text,                             -- JSON, with its `kind`; null for `trial` and `verdict`
    primary key (run_id, seq)
) strict, without rowid;

-- One measurement of one step, judged.
create table trials (
    run_id text not null references runs (id) on delete cascade,
    arm integer not null,
    step integer not null,                 -- 0 is the empty target
    trial integer not null,                -- 1 for the first measurement of a step
    seq integer not null,                  -- its event
    load integer not null,
    outcome text not null,
    stop_code text,
    started_ns integer not null,
    measure_from_ns integer not null,
    ended_ns integer not null,
    body text not null,                    -- JSON: the whole trial
    primary key (run_id, arm, step, trial),
    unique (run_id, seq)
) strict;

-- Latencies kept whole, so that nothing has to be averaged later.
create table histograms (
    run_id text not null references runs (id) on delete cascade,
    arm integer not null,
    step integer not null,
    trial integer not null,
    unit integer not null,                 -- the load unit that recorded it
    node text not null,
    stream text not null,
    operation text not null,
    outcome text not null,                 -- ok, or an error code
    clock text not null check (clock in ('due', 'service')),
    count integer not null,                -- recorded values
    v2_deflate blob not null,              -- HdrHistogram V2 with deflate, of microseconds
    primary key (run_id, arm, step, trial, unit, node, stream, operation, outcome, clock)
) strict;

-- One metric of one node of one arm; docs/METRICS.md says what each metric is.
create table series (
    id integer primary key,
    run_id text not null references runs (id) on delete cascade,
    arm integer not null,
    node text not null,
    metric text not null,
    unit text not null,                    -- as the metric had it when it was stored
    unique (run_id, arm, node, metric)
) strict;

-- The readings of a series, in parts: the last part grows while the run goes on, long parts are made when it ends.
create table chunks (
    series_id integer not null references series (id) on delete cascade,
    part integer not null,                 -- 0, 1, 2 in time order
    from_ns integer not null,              -- the first reading's time
    until_ns integer not null,             -- the last reading's time
    readings integer not null,
    at_ns blob not null,                   -- pco, i64: when
    value blob not null,                   -- pco, f64: what, in the series' unit
    primary key (series_id, part)
) strict;

-- Processes that a live run has started: what a crash leaves behind. Emptied when the run ends.
create table launched (
    run_id text not null references runs (id) on delete cascade,
    pid integer not null,
    process_started_s integer not null,    -- seconds since the epoch: with the pid, the process's identity
    dir text not null,                     -- its folder, removed with it
    primary key (run_id, pid, process_started_s)
) strict;

-- What a client said to make its request count once. The request is the run's own scenario text.
create table idempotency (
    key text primary key not null,
    run_id text not null references runs (id) on delete cascade,
    created_ns integer not null
) strict, without rowid;
