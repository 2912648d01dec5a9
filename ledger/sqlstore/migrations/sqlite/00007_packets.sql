-- +goose Up

-- Which body an evidence packet stands behind: it goes with that.
CREATE TABLE evidence_refs (
	packet TEXT NOT NULL,
	body   TEXT NOT NULL,
	PRIMARY KEY (packet, body)
) STRICT;
CREATE INDEX evidence_refs_body ON evidence_refs (body);

-- +goose Down
-- A ledger is not taken back.
SELECT abs(-9223372036854775808);
