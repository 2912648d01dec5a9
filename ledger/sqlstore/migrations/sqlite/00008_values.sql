-- +goose Up

-- The output of a run that succeeded, sealed to its workflow where there are keys:
-- an end that is asked for again is told with it. closed_at is in milliseconds since
-- 1970; ends from before have none, and no value.
ALTER TABLE runs ADD COLUMN closed_at INTEGER;
ALTER TABLE runs ADD COLUMN value BLOB;
CREATE INDEX runs_value ON runs (closed_at) WHERE value IS NOT NULL;

-- What has no end yet is looked through again and again.
CREATE INDEX runs_open ON runs (workflow, root) WHERE state = 'running';

-- +goose Down
-- A ledger is not taken back.
SELECT abs(-9223372036854775808);
