-- +goose Up

-- Temporary tables are found first unless they are named last: a role that may
-- make one could show these functions legal holds, or tiles, of its own.
-- +goose StatementBegin
DO $$
DECLARE f TEXT;
BEGIN
	FOREACH f IN ARRAY ARRAY['keep_body()', 'keep_tile()', 'prune_bodies(TEXT, BIGINT)'] LOOP
		EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
	END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
