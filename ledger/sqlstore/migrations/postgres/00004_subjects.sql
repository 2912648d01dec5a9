-- +goose Up

-- The key under which everything that a run states is sealed, where the run is
-- about a person. It stays when the key is deleted.
ALTER TABLE runs ADD COLUMN subject_key TEXT;
CREATE INDEX runs_subject ON runs (subject_key) WHERE subject_key IS NOT NULL;
CREATE INDEX runs_root ON runs (root);

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
