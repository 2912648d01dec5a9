-- +goose Up

-- Which body an evidence packet stands behind: it goes with that.
CREATE TABLE evidence_refs (
	packet TEXT NOT NULL,
	body   TEXT NOT NULL,
	PRIMARY KEY (packet, body)
);
CREATE INDEX evidence_refs_body ON evidence_refs (body);
CREATE TRIGGER never_changed BEFORE UPDATE ON evidence_refs FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Packets that stand behind bodies that are all gone, and those of a key that is.
-- +goose StatementBegin
CREATE FUNCTION drop_packets() RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE gone BIGINT;
BEGIN
	DELETE FROM evidence e WHERE EXISTS (SELECT FROM evidence_refs r WHERE r.packet = e.digest)
		AND NOT EXISTS (SELECT FROM evidence_refs r JOIN bodies b ON b.digest = r.body LEFT JOIN subject_keys k ON k.id = b.subject_key
			WHERE r.packet = e.digest AND (b.subject_key IS NULL OR k.id IS NOT NULL));
	GET DIAGNOSTICS gone = ROW_COUNT;
	DELETE FROM evidence_refs r WHERE NOT EXISTS (SELECT FROM bodies b WHERE b.digest = r.body);
	RETURN gone;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION drop_packets FROM PUBLIC;
-- As in 00006: a caller's temporary tables are found last.
-- +goose StatementBegin
DO $$
BEGIN
	EXECUTE format('ALTER FUNCTION drop_packets() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
