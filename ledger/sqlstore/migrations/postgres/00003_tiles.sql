-- +goose Up

-- A tile that a wider one begins with may go: nothing is lost with it, and the
-- sequencer makes another at every batch.
-- +goose StatementBegin
CREATE FUNCTION keep_tile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM log_tiles w WHERE w.level = OLD.level AND w.n = OLD.n AND w.width > OLD.width
			AND substr(w.data, 1, length(OLD.data)) = OLD.data) THEN
		RAISE EXCEPTION 'table log_tiles of the ledger takes no DELETE' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN OLD;
END $$;
-- +goose StatementEnd
DROP TRIGGER append_only ON log_tiles;
CREATE TRIGGER append_only BEFORE UPDATE ON log_tiles FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER kept BEFORE DELETE ON log_tiles FOR EACH ROW EXECUTE FUNCTION keep_tile();
DELETE FROM log_tiles t WHERE EXISTS (SELECT FROM log_tiles w WHERE w.level = t.level AND w.n = t.n AND w.width > t.width);

-- A decision permits one invocation.
CREATE INDEX invocations_decision ON invocations (decision_id);

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
