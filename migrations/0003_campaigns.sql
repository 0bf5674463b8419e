-- Scenarios that follow one another, each at the load that an earlier one found.
create table campaigns (
    id text primary key not null,          -- UUID v7, hyphenated
    name text not null,
    body text not null,                    -- JSON: the parts with their scenarios, as they were asked for
    origin text not null check (origin in ('page', 'api', 'command line')),
    created_ns integer not null
) strict, without rowid;

-- How far a campaign has come: one row a part that has begun, or that cannot begin.
create table campaign_parts (
    campaign_id text not null references campaigns (id) on delete cascade,
    part integer not null,                 -- 0 for the first
    run_id text references runs (id) on delete set null,
    why text,                              -- why it has no run, in words
    primary key (campaign_id, part)
) strict, without rowid;
