-- +goose Up

-- Pruning is by class and age alone: whoever may call this, and may delete
-- nothing, cannot choose what goes. What is kept, the trigger on bodies keeps.
-- +goose StatementBegin
CREATE FUNCTION prune_bodies(what TEXT, before BIGINT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE gone BIGINT;
BEGIN
	DELETE FROM bodies b WHERE b.class = what AND b.at < before AND b.chain NOT IN (SELECT h.chain FROM legal_holds h);
	GET DIAGNOSTICS gone = ROW_COUNT;
	RETURN gone;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION prune_bodies FROM PUBLIC;

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
