-- What the generator of a machine was measured to send at most, to a service that answers at once.
create table calibrations (
    at_ns integer not null,
    host text not null,                    -- the machine's name
    ceiling_per_s integer not null,        -- operations a second that one load thread kept
    start_lag_p50_us integer not null,     -- how late they were sent at that rate, microseconds
    start_lag_p99_us integer not null,
    primary key (host, at_ns)
) strict, without rowid;
