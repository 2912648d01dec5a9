-- +goose Up

-- The log. Rows of these tables are inserted and read, and nothing else.
CREATE TABLE entries (
	serial BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	hash   BYTEA NOT NULL UNIQUE,
	chain  TEXT NOT NULL,
	n      BIGINT NOT NULL,
	key    TEXT NOT NULL,
	kind   TEXT NOT NULL,
	bytes  BYTEA NOT NULL,
	UNIQUE (chain, n),
	UNIQUE (chain, key)
);
-- Entries that have no place in the tree yet. Writers insert, the sequencer
-- deletes: what one look cannot see yet, a later one does.
CREATE TABLE pending (
	serial BIGINT PRIMARY KEY
);

CREATE TABLE log_batches (
	n          BIGINT PRIMARY KEY,
	size       BIGINT NOT NULL, -- of the log before the batch
	grown      BIGINT NOT NULL CHECK (grown >= size),
	checkpoint BYTEA NOT NULL
);
CREATE TABLE log_index (
	place  BIGINT PRIMARY KEY,
	serial BIGINT NOT NULL UNIQUE REFERENCES entries
);
CREATE TABLE log_tiles (
	level INT NOT NULL,
	n     BIGINT NOT NULL,
	width INT NOT NULL,
	data  BYTEA NOT NULL,
	PRIMARY KEY (level, n, width)
);
CREATE TABLE log_cosignatures (
	serial     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	size       BIGINT NOT NULL,
	checkpoint BYTEA NOT NULL
);

-- Bodies are the one thing that can be taken out, but for those of the class
-- permanent and of chains under legal hold.
CREATE TABLE bodies (
	digest TEXT PRIMARY KEY,
	chain  TEXT NOT NULL,
	class  TEXT NOT NULL,
	at     BIGINT NOT NULL, -- milliseconds since 1970
	subject_key TEXT,
	bytes  BYTEA NOT NULL
);
CREATE INDEX bodies_age ON bodies (class, at);
CREATE INDEX bodies_subject ON bodies (subject_key) WHERE subject_key IS NOT NULL;
CREATE TABLE subject_keys (
	id   TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	key  BYTEA NOT NULL
);
CREATE TABLE legal_holds (
	chain TEXT PRIMARY KEY
);

CREATE TABLE blobs (
	digest TEXT PRIMARY KEY,
	bytes  BYTEA NOT NULL
);

-- State that the log tells the story of. doc is the entity as JSON; columns
-- beside it serve to find it.
CREATE TABLE agent_identity (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	agent_id       TEXT PRIMARY KEY,
	persona_ref    TEXT NOT NULL,
	wallet_address TEXT NOT NULL,
	created_at     BIGINT NOT NULL
);
CREATE TABLE causal_hypothesis (
	hypothesis_id TEXT PRIMARY KEY,
	agent_id      TEXT NOT NULL,
	description   TEXT NOT NULL,
	inputs        TEXT NOT NULL,
	prediction    TEXT NOT NULL,
	risk_score    NUMERIC NOT NULL,
	created_at    BIGINT NOT NULL,
	state         TEXT NOT NULL,
	observed      TEXT,
	tool_id       TEXT NOT NULL
);
CREATE TABLE financial_ledger (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	tx_id      TEXT PRIMARY KEY,
	agent_id   TEXT NOT NULL,
	tx_type    TEXT NOT NULL,
	amount     NUMERIC NOT NULL,
	currency   TEXT NOT NULL,
	status     TEXT NOT NULL,
	created_at BIGINT NOT NULL
);
CREATE INDEX financial_ledger_agent ON financial_ledger (agent_id, serial);
CREATE TABLE mcp_tool_registry (
	tool_id       TEXT PRIMARY KEY,
	name          TEXT NOT NULL,
	version       TEXT NOT NULL,
	schema        TEXT NOT NULL,
	registered_at BIGINT NOT NULL,
	fingerprint   TEXT NOT NULL,
	status        TEXT NOT NULL
);
CREATE TABLE plans (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	name         TEXT NOT NULL,
	version      TEXT NOT NULL,
	digest       TEXT NOT NULL,
	published_at BIGINT NOT NULL,
	doc          TEXT NOT NULL,
	PRIMARY KEY (name, version)
);
CREATE INDEX plans_name ON plans (name, serial);
CREATE INDEX plans_digest ON plans (digest);
CREATE TABLE runs (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	workflow  TEXT NOT NULL,
	root      TEXT NOT NULL,
	opened_at BIGINT NOT NULL,
	state     TEXT NOT NULL,
	doc       TEXT NOT NULL,
	PRIMARY KEY (workflow, root)
);
CREATE INDEX runs_workflow ON runs (workflow, serial);
CREATE TABLE outcomes (
	workflow TEXT NOT NULL,
	root     TEXT NOT NULL,
	serial   BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	node     TEXT NOT NULL,
	visit    INT NOT NULL,
	element  INT NOT NULL,
	doc      TEXT NOT NULL,
	PRIMARY KEY (workflow, root, node, visit, element)
);
CREATE TABLE tasks (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	task_id    TEXT PRIMARY KEY,
	chain      TEXT NOT NULL,
	state      TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	doc        TEXT NOT NULL
);
CREATE TABLE signers (
	id  TEXT PRIMARY KEY,
	doc TEXT NOT NULL
);
CREATE TABLE budgets (
	agent    TEXT NOT NULL,
	currency TEXT NOT NULL,
	period   TEXT NOT NULL,
	parent   TEXT NOT NULL,
	lim      BIGINT NOT NULL, -- minor units, as pending and posted
	pending  BIGINT NOT NULL DEFAULT 0,
	posted   BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (agent, currency, period)
);
CREATE TABLE holds (
	id         TEXT PRIMARY KEY,
	agent      TEXT NOT NULL,
	currency   TEXT NOT NULL,
	period     TEXT NOT NULL,
	amount     BIGINT NOT NULL,
	status     TEXT NOT NULL,
	overdraft  BOOLEAN NOT NULL,
	running    BOOLEAN NOT NULL,
	posted     BIGINT,
	expires_at BIGINT NOT NULL
);
CREATE INDEX holds_expiry ON holds (expires_at) WHERE status = 'pending' AND NOT running;
CREATE TABLE decisions (
	id    TEXT PRIMARY KEY,
	chain TEXT NOT NULL,
	doc   TEXT NOT NULL
);
CREATE TABLE approvals (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	id          TEXT PRIMARY KEY,
	chain       TEXT NOT NULL,
	barrier     TEXT NOT NULL,
	received_at BIGINT NOT NULL,
	accepted    BOOLEAN NOT NULL,
	consumed_by TEXT,
	doc         TEXT NOT NULL
);
CREATE INDEX approvals_barrier ON approvals (barrier, serial);
CREATE TABLE invocations (
	id             TEXT PRIMARY KEY,
	chain          TEXT NOT NULL,
	action_digest  TEXT NOT NULL,
	decision_id    TEXT NOT NULL,
	state          TEXT NOT NULL,
	attempt        INT NOT NULL,
	call_not_after BIGINT,
	output_digest  TEXT NOT NULL
);
CREATE TABLE snapshots (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	server      TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	digest      TEXT NOT NULL,
	taken_at    BIGINT NOT NULL
);
CREATE INDEX snapshots_server ON snapshots (server, serial);
CREATE TABLE evidence (
	digest TEXT PRIMARY KEY,
	doc    TEXT NOT NULL
);
CREATE TABLE authority (
	n         BIGINT PRIMARY KEY,
	digest    TEXT NOT NULL UNIQUE,
	prev      TEXT NOT NULL UNIQUE,
	statement TEXT NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'table % of the ledger takes no %', TG_TABLE_NAME, TG_OP USING ERRCODE = 'integrity_constraint_violation';
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION keep_body() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.class = 'permanent' OR EXISTS (SELECT FROM legal_holds WHERE chain = OLD.chain) THEN
		RAISE EXCEPTION 'body % of the ledger is kept', OLD.digest USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN OLD;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE t TEXT;
BEGIN
	FOREACH t IN ARRAY ARRAY['entries', 'log_batches', 'log_index', 'log_tiles', 'log_cosignatures', 'authority'] LOOP
		EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', t);
		EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', t);
	END LOOP;
	CREATE TRIGGER never_changed BEFORE UPDATE ON bodies FOR EACH ROW EXECUTE FUNCTION refuse_change();
	CREATE TRIGGER kept BEFORE DELETE ON bodies FOR EACH ROW EXECUTE FUNCTION keep_body();
	CREATE TRIGGER never_emptied BEFORE TRUNCATE ON bodies FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
END $$;
-- +goose StatementEnd

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
