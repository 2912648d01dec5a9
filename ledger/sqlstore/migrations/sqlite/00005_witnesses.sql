-- +goose Up
-- Cosignatures are looked for by the size of their checkpoint, which may be an
-- older one: a witness takes its time.
CREATE INDEX log_batches_grown ON log_batches (grown);
CREATE INDEX log_cosignatures_size ON log_cosignatures (size);

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
