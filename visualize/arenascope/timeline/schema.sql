-- A timeline (docs/over-time.md), whose version the last line states. Times are in nanoseconds since the epoch, sizes in bytes. NULL: not known.
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE processes (
    id INTEGER PRIMARY KEY,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    comm TEXT NOT NULL,
    exe TEXT,
    cmdline TEXT NOT NULL,
    UNIQUE (boot, pid, started)
);
CREATE TABLE polls (
    id INTEGER PRIMARY KEY,
    time_ns INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    processes INTEGER NOT NULL,
    cost_us INTEGER NOT NULL,
    interval_ms INTEGER NOT NULL,
    notes TEXT
);
CREATE TABLE frames (
    id INTEGER PRIMARY KEY,
    process INTEGER NOT NULL REFERENCES processes (id),
    body BLOB NOT NULL,
    pages BLOB
);
CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY,
    poll INTEGER NOT NULL REFERENCES polls (id),
    process INTEGER NOT NULL REFERENCES processes (id),
    time_ns INTEGER NOT NULL,
    exact INTEGER NOT NULL,
    rss INTEGER,
    rows TEXT NOT NULL,
    frame INTEGER NOT NULL REFERENCES frames (id),
    body BLOB NOT NULL,
    pages BLOB
);
CREATE TABLE groups (
    snapshot INTEGER PRIMARY KEY REFERENCES snapshots (id),
    body BLOB NOT NULL
);
CREATE INDEX snapshots_by_poll ON snapshots (poll);
CREATE INDEX snapshots_by_frame ON snapshots (frame);
PRAGMA user_version = 1;
