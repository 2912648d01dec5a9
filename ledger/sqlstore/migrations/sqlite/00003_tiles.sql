-- +goose Up

-- A tile that a wider one begins with may go: nothing is lost with it, and the
-- sequencer makes another at every batch.
DROP TRIGGER log_tiles_delete;
-- +goose StatementBegin
CREATE TRIGGER log_tiles_delete BEFORE DELETE ON log_tiles
WHEN NOT EXISTS (SELECT 1 FROM log_tiles w WHERE w.level = OLD.level AND w.n = OLD.n AND w.width > OLD.width
	AND substr(w.data, 1, length(OLD.data)) = OLD.data)
BEGIN SELECT RAISE(ABORT, 'table log_tiles of the ledger takes no DELETE'); END;
-- +goose StatementEnd
DELETE FROM log_tiles WHERE EXISTS (SELECT 1 FROM log_tiles w WHERE w.level = log_tiles.level AND w.n = log_tiles.n AND w.width > log_tiles.width);

-- A decision permits one invocation.
CREATE INDEX invocations_decision ON invocations (decision_id);

-- +goose Down
-- A ledger is not taken back.
SELECT abs(-9223372036854775808);
