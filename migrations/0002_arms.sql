-- What each arm of a run ran on: a run whose setting varies launches its target anew for each.
create table arms (
    run_id text not null references runs (id) on delete cascade,
    arm integer not null,
    inventory text not null,               -- JSON: nodes, versions, settings and limits, read before the arm's load
    primary key (run_id, arm)
) strict, without rowid;
