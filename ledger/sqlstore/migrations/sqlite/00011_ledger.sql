-- The whole is one statement to goose, which takes megabytes for each line of SQL that it has to
-- look at for the end of one.

-- +goose Up
-- +goose StatementBegin

-- Versions before this one are of builds that were never released.

-- The log. Rows of these tables are inserted and read, and nothing else.
CREATE TABLE entries (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	hash   BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
	chain  TEXT NOT NULL,
	n      INTEGER NOT NULL,
	key    TEXT NOT NULL,
	kind   TEXT NOT NULL,
	bytes  BLOB NOT NULL CHECK (length(bytes) <= 16384 AND instr(bytes, x'0a') = 0),
	UNIQUE (chain, n),
	UNIQUE (chain, key)
) STRICT;
-- No two entries name one body, which each entry does at its end: to prune it is stated once.
CREATE UNIQUE INDEX entries_body ON entries (substr(bytes, -73, 71));
-- Rows of entries that are none. Nobody takes them away.
CREATE TABLE aside (
	serial INTEGER PRIMARY KEY,
	hash   BLOB NOT NULL,
	chain  TEXT NOT NULL,
	n      INTEGER NOT NULL,
	key    TEXT NOT NULL,
	kind   TEXT NOT NULL,
	bytes  BLOB NOT NULL,
	why    TEXT NOT NULL CHECK (octet_length(why) <= 2000),
	at     INTEGER NOT NULL,
	-- Whether there was the body that the bytes name, if any, as that of the entry and sealed as
	-- its run is, and the entry before in the chain: who adds them later cannot make it look as
	-- if an entry had been set aside.
	bodied   INTEGER NOT NULL,
	followed INTEGER NOT NULL
) STRICT;

CREATE TABLE log_batches (
	n          INTEGER PRIMARY KEY,
	size       INTEGER NOT NULL CHECK (size >= 0), -- of the log before the batch
	grown      INTEGER NOT NULL CHECK (grown >= size),
	checkpoint BLOB NOT NULL CHECK (length(checkpoint) <= 65536),
	at         INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER))
) STRICT;
CREATE INDEX log_batches_grown ON log_batches (grown, n);
CREATE TABLE log_index (
	place  INTEGER PRIMARY KEY,
	serial INTEGER NOT NULL UNIQUE REFERENCES entries
) STRICT;
CREATE TABLE log_tiles (
	level INTEGER NOT NULL,
	n     INTEGER NOT NULL,
	width INTEGER NOT NULL,
	data  BLOB NOT NULL,
	PRIMARY KEY (level, n, width)
) STRICT;
CREATE TABLE log_cosignatures (
	serial     INTEGER PRIMARY KEY AUTOINCREMENT,
	size       INTEGER NOT NULL, -- that of a row of log_batches
	checkpoint BLOB NOT NULL CHECK (length(checkpoint) <= 65536)
) STRICT;
-- Cosignatures are looked for by the size of their checkpoint, which may be an
-- older one: a witness takes its time.
CREATE INDEX log_cosignatures_size ON log_cosignatures (size);

-- Bodies are the one thing that can be taken out, but for those of the class
-- permanent and of chains under legal hold.
CREATE TABLE bodies (
	digest TEXT PRIMARY KEY,
	chain  TEXT NOT NULL,
	class  TEXT NOT NULL,
	at     INTEGER NOT NULL, -- milliseconds since 1970
	subject_key TEXT,
	bytes  BLOB NOT NULL CHECK (length(bytes) <= 524288 AND instr(bytes, x'0a') = 0),
	-- A body that is sealed names the key at its beginning.
	CHECK (CASE WHEN substr(bytes, 1, 10) = CAST('{"sealed":' AS BLOB) THEN subject_key IS NOT NULL AND substr(bytes, 11, 9 + octet_length(subject_key)) = CAST('{"key":"' || subject_key || '"' AS BLOB) ELSE subject_key IS NULL END)
) STRICT;
CREATE INDEX bodies_age ON bodies (class, at);
CREATE INDEX bodies_subject ON bodies (subject_key) WHERE subject_key IS NOT NULL;
-- Bodies that were pruned before their entries had a place.
CREATE TABLE pruned_early (
	digest TEXT PRIMARY KEY,
	chain  TEXT NOT NULL,
	class  TEXT NOT NULL,
	at     INTEGER NOT NULL
) STRICT;
-- Each is wrapped with a key that lies outside the database: see package keyring.
CREATE TABLE subject_keys (
	id         TEXT PRIMARY KEY CHECK (length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'),
	lookup     TEXT NOT NULL UNIQUE CHECK (length(lookup) = 64 AND lookup NOT GLOB '*[^0-9a-f]*'), -- what the subject's name is found by
	generation TEXT NOT NULL CHECK (length(generation) = 25 AND substr(generation, 9, 1) = '-'
		AND substr(generation, 1, 8) NOT GLOB '*[^0-9]*' AND substr(generation, 10) NOT GLOB '*[^0-9a-f]*'), -- of the key that wraps
	wrapped    BLOB NOT NULL CHECK (length(wrapped) <= 4096)
) STRICT;
-- The generation of that key which wraps all of them: one row, once there is any.
CREATE TABLE keyring (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	generation TEXT NOT NULL
) STRICT;
CREATE TABLE legal_holds (
	chain TEXT PRIMARY KEY
) STRICT;

CREATE TABLE blobs (
	digest TEXT PRIMARY KEY,
	bytes  BLOB NOT NULL
) STRICT;

-- State that the log tells the story of. doc is the entity as JSON; columns
-- beside it serve to find it. The bounds are beyond what a store writes: a body
-- of the log at most, and an evidence packet, sealed.
CREATE TABLE agent_identity (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	agent_id       TEXT NOT NULL UNIQUE,
	persona_ref    TEXT NOT NULL,
	wallet_address TEXT NOT NULL,
	created_at     INTEGER NOT NULL
) STRICT;
CREATE TABLE causal_hypothesis (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	hypothesis_id TEXT NOT NULL UNIQUE,
	agent_id      TEXT NOT NULL,
	description   TEXT NOT NULL,
	inputs        TEXT NOT NULL,
	prediction    TEXT NOT NULL,
	risk_score    TEXT,
	created_at    INTEGER NOT NULL,
	state         TEXT NOT NULL,
	observed      TEXT CHECK (octet_length(observed) <= 262144),
	-- How many KPIs were observed.
	measured      INTEGER NOT NULL DEFAULT 0,
	tool_id       TEXT NOT NULL,
	-- The key with which that of a run about a person is sealed, in place of description, inputs,
	-- prediction and risk_score; observed is sealed with it, too.
	subject_key   TEXT,
	sealed        TEXT,
	CHECK ((sealed IS NULL) = (subject_key IS NULL) AND (risk_score IS NULL) = (subject_key IS NOT NULL))
) STRICT;
CREATE INDEX causal_hypothesis_tool ON causal_hypothesis (tool_id, serial);
CREATE INDEX causal_hypothesis_agent ON causal_hypothesis (agent_id, serial);
CREATE INDEX causal_hypothesis_subject ON causal_hypothesis (subject_key) WHERE subject_key IS NOT NULL;
CREATE TABLE financial_ledger (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	tx_id      TEXT NOT NULL UNIQUE,
	agent_id   TEXT NOT NULL,
	tx_type    TEXT NOT NULL,
	amount     TEXT NOT NULL,
	currency   TEXT NOT NULL,
	status     TEXT NOT NULL,
	created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX financial_ledger_agent ON financial_ledger (agent_id, serial);
CREATE TABLE mcp_tool_registry (
	tool_id       TEXT PRIMARY KEY,
	name          TEXT NOT NULL,
	version       TEXT NOT NULL,
	schema        TEXT NOT NULL CHECK (octet_length(schema) <= 4194304),
	registered_at INTEGER NOT NULL,
	fingerprint   TEXT NOT NULL,
	status        TEXT NOT NULL
) STRICT;
CREATE TABLE plans (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	name         TEXT NOT NULL,
	version      TEXT NOT NULL,
	digest       TEXT NOT NULL,
	published_at INTEGER NOT NULL,
	doc          TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	UNIQUE (name, version)
) STRICT;
CREATE INDEX plans_name ON plans (name, serial);
CREATE INDEX plans_digest ON plans (digest);
CREATE TABLE runs (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	workflow  TEXT NOT NULL,
	root      TEXT NOT NULL,
	origin    TEXT NOT NULL,
	opened_at INTEGER NOT NULL,
	state     TEXT NOT NULL,
	doc       TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	-- The key under which everything that a run states is sealed, where the run is
	-- about a person. It stays when the key is deleted.
	subject_key TEXT,
	-- When the run was closed, in milliseconds since 1970.
	closed_at INTEGER,
	-- The output of a run that succeeded, sealed to its workflow where there are keys:
	-- an end that is asked for again is told with it.
	value     BLOB,
	UNIQUE (workflow, root)
) STRICT;
CREATE INDEX runs_workflow ON runs (workflow, serial);
CREATE INDEX runs_root ON runs (root);
CREATE INDEX runs_origin ON runs (origin);
CREATE INDEX runs_subject ON runs (subject_key) WHERE subject_key IS NOT NULL;
CREATE INDEX runs_value ON runs (closed_at) WHERE value IS NOT NULL;
-- What has no end yet is looked through again and again.
CREATE INDEX runs_open ON runs (workflow, root) WHERE state = 'running';
-- A run is looked for by the name of its chain.
CREATE UNIQUE INDEX runs_chain ON runs ('run/' || workflow || '/' || root);
CREATE TABLE outcomes (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	workflow TEXT NOT NULL,
	root     TEXT NOT NULL,
	node     TEXT NOT NULL,
	visit    INTEGER NOT NULL,
	element  INTEGER NOT NULL,
	doc      TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	UNIQUE (workflow, root, node, visit, element)
) STRICT;
-- What runs were told: the last order says whether a run is paused. The texts stand in the log.
CREATE TABLE orders (
	workflow TEXT NOT NULL,
	root     TEXT NOT NULL,
	n        INTEGER NOT NULL,
	kind     TEXT NOT NULL,
	digest   TEXT NOT NULL, -- that of what was signed, or ''
	PRIMARY KEY (workflow, root, n)
) STRICT;
CREATE TABLE tasks (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	task_id    TEXT NOT NULL UNIQUE,
	chain      TEXT NOT NULL,
	state      TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	doc        TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
) STRICT;
CREATE TABLE signers (
	id  TEXT PRIMARY KEY,
	doc TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
) STRICT;
CREATE TABLE budgets (
	agent    TEXT NOT NULL,
	currency TEXT NOT NULL,
	every    TEXT NOT NULL,
	parent   TEXT NOT NULL,
	lim      INTEGER NOT NULL, -- minor units, as pending and posted
	PRIMARY KEY (agent, currency)
) STRICT;
-- What is used of a budget in a period.
CREATE TABLE budget_use (
	agent    TEXT NOT NULL,
	currency TEXT NOT NULL,
	period   TEXT NOT NULL,
	pending  INTEGER NOT NULL,
	posted   INTEGER NOT NULL,
	PRIMARY KEY (agent, currency, period)
) STRICT;
CREATE TABLE holds (
	id         TEXT PRIMARY KEY,
	agent      TEXT NOT NULL,
	currency   TEXT NOT NULL,
	charges    TEXT NOT NULL, -- JSON
	amount     INTEGER NOT NULL,
	status     TEXT NOT NULL,
	overdraft  INTEGER NOT NULL,
	running    INTEGER NOT NULL,
	posted     INTEGER,
	expires_at INTEGER NOT NULL,
	call       TEXT, -- JSON
	root       TEXT NOT NULL,
	origin     TEXT NOT NULL,
	prob       INTEGER NOT NULL
) STRICT;
CREATE INDEX holds_expiry ON holds (expires_at) WHERE status = 'pending' AND NOT running;
CREATE INDEX holds_calls ON holds (expires_at) WHERE status = 'pending' AND running AND root <> '';
CREATE INDEX holds_prob ON holds (origin) WHERE prob;
CREATE TABLE decisions (
	id    TEXT PRIMARY KEY,
	invocation TEXT NOT NULL,
	chain TEXT NOT NULL,
	-- What is called, and when that was decided.
	operation TEXT NOT NULL DEFAULT '',
	at    INTEGER NOT NULL DEFAULT 0,
	-- Of the action's digest; nowhere in the log.
	salt  BLOB,
	doc   TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
) STRICT;
CREATE INDEX decisions_operation ON decisions (operation, at);
CREATE INDEX decisions_invocation ON decisions (invocation);
CREATE TABLE barriers (
	id         TEXT PRIMARY KEY,
	chain      TEXT NOT NULL,
	origin     TEXT NOT NULL,
	state      TEXT NOT NULL,
	expires_at INTEGER NOT NULL,
	refused    INTEGER NOT NULL,
	doc        TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
) STRICT;
CREATE INDEX barriers_state ON barriers (state, expires_at);
CREATE TABLE approvals (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	id          TEXT NOT NULL UNIQUE,
	chain       TEXT NOT NULL,
	barrier     TEXT NOT NULL,
	received_at INTEGER NOT NULL,
	accepted    INTEGER NOT NULL,
	doc         TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
) STRICT;
CREATE INDEX approvals_barrier ON approvals (barrier, serial);
-- Calls on which effects rely, as the role that calls effects states them.
CREATE TABLE checks (
	workflow TEXT NOT NULL,
	origin   TEXT NOT NULL,
	node     TEXT NOT NULL,
	visit    INTEGER NOT NULL,
	number   INTEGER NOT NULL,
	chain    TEXT NOT NULL,
	barrier  TEXT NOT NULL,
	doc      TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	PRIMARY KEY (workflow, origin, node, visit, number)
) STRICT;
CREATE INDEX checks_chain ON checks (chain);
-- What approvals count for: each, for one invocation of each of its actions.
CREATE TABLE consumptions (
	approval   TEXT NOT NULL,
	action     TEXT NOT NULL,
	invocation TEXT NOT NULL,
	PRIMARY KEY (approval, action)
) STRICT;
CREATE TABLE invocations (
	id             TEXT PRIMARY KEY,
	chain          TEXT NOT NULL, -- of the run that was last permitted to call
	origin         TEXT NOT NULL,
	-- Of the action's digest; nowhere in the log. Erasing a subject removes it.
	salt           BLOB,
	-- The key with which salt, permit, output and its digest are sealed, where the run is
	-- about a person.
	subject_key    TEXT,
	action_digest  TEXT NOT NULL,
	decision_id    TEXT NOT NULL UNIQUE,
	task_id        TEXT NOT NULL,
	hold_id        TEXT NOT NULL,
	repeatable     INTEGER NOT NULL,
	permit         TEXT NOT NULL, -- JSON
	permit_until   INTEGER NOT NULL,
	unused         INTEGER NOT NULL,
	token          TEXT NOT NULL, -- of the last claim: its digest until the call has ended
	state          TEXT NOT NULL CHECK (state IN ('permitted', 'calling', 'released', 'settled', 'unknown')),
	attempt        INTEGER NOT NULL,
	doubted        INTEGER NOT NULL DEFAULT FALSE,
	call_not_after INTEGER,
	output_digest  TEXT NOT NULL,
	-- What the call answered, sealed to the invocation where there are keys.
	output         BLOB,
	CHECK (state NOT IN ('calling', 'unknown') OR call_not_after IS NOT NULL)
) STRICT;
CREATE INDEX invocations_origin ON invocations (origin);
CREATE INDEX invocations_chain ON invocations (chain);
CREATE INDEX invocations_calling ON invocations (call_not_after) WHERE state = 'calling';
CREATE TABLE snapshots (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	server      TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	digest      TEXT NOT NULL,
	taken_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX snapshots_server ON snapshots (server, serial);
CREATE TABLE evidence (
	digest TEXT PRIMARY KEY,
	doc    TEXT NOT NULL CHECK (octet_length(doc) <= 8388608)
) STRICT;
-- Which body an evidence packet stands behind: it goes with that.
CREATE TABLE evidence_refs (
	packet TEXT NOT NULL,
	body   TEXT NOT NULL,
	PRIMARY KEY (packet, body)
) STRICT;
CREATE INDEX evidence_refs_body ON evidence_refs (body);
CREATE TABLE authority (
	n         INTEGER PRIMARY KEY,
	digest    TEXT NOT NULL UNIQUE,
	prev      TEXT NOT NULL UNIQUE,
	statement TEXT NOT NULL CHECK (octet_length(statement) <= 524288)
) STRICT;

CREATE TRIGGER entries_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'table entries of the ledger takes no UPDATE'); END;
CREATE TRIGGER entries_delete BEFORE DELETE ON entries
WHEN EXISTS (SELECT 1 FROM log_index i WHERE i.serial = OLD.serial)
	OR NOT EXISTS (SELECT 1 FROM aside a WHERE a.serial = OLD.serial AND a.hash = OLD.hash AND a.bytes = OLD.bytes)
BEGIN SELECT RAISE(ABORT, 'table entries of the ledger takes no DELETE'); END;
CREATE TRIGGER aside_update BEFORE UPDATE ON aside BEGIN SELECT RAISE(ABORT, 'table aside of the ledger takes no UPDATE'); END;
CREATE TRIGGER aside_delete BEFORE DELETE ON aside BEGIN SELECT RAISE(ABORT, 'table aside of the ledger takes no DELETE'); END;
CREATE TRIGGER aside_replace BEFORE INSERT ON aside WHEN EXISTS (SELECT 1 FROM aside WHERE serial = NEW.serial)
BEGIN SELECT RAISE(ABORT, 'table aside of the ledger has that row'); END;
-- A row says what its text says, goes on from another, and is over entries that have places.
CREATE TRIGGER log_batches_fits BEFORE INSERT ON log_batches
WHEN NEW.n <> (SELECT coalesce(max(n), 0) + 1 FROM log_batches)
	OR NEW.size <> 0 AND NOT EXISTS (SELECT 1 FROM log_batches WHERE grown = NEW.size)
	OR NEW.grown > (SELECT coalesce(max(place), -1) + 1 FROM log_index)
	OR substr(CAST(NEW.checkpoint AS TEXT), instr(CAST(NEW.checkpoint AS TEXT), char(10)) + 1, length(NEW.grown) + 1) <> NEW.grown || char(10)
BEGIN SELECT RAISE(ABORT, 'table log_batches of the ledger has no such next row'); END;
-- Witnesses cosign checkpoints that are there.
CREATE TRIGGER log_cosignatures_fits BEFORE INSERT ON log_cosignatures WHEN NOT EXISTS (SELECT 1 FROM log_batches WHERE grown = NEW.size)
BEGIN SELECT RAISE(ABORT, 'table log_batches of the ledger has no row of that size'); END;
CREATE TRIGGER log_batches_update BEFORE UPDATE ON log_batches BEGIN SELECT RAISE(ABORT, 'table log_batches of the ledger takes no UPDATE'); END;
CREATE TRIGGER log_batches_delete BEFORE DELETE ON log_batches BEGIN SELECT RAISE(ABORT, 'table log_batches of the ledger takes no DELETE'); END;
CREATE TRIGGER log_index_update BEFORE UPDATE ON log_index BEGIN SELECT RAISE(ABORT, 'table log_index of the ledger takes no UPDATE'); END;
CREATE TRIGGER log_index_delete BEFORE DELETE ON log_index BEGIN SELECT RAISE(ABORT, 'table log_index of the ledger takes no DELETE'); END;
CREATE TRIGGER log_tiles_update BEFORE UPDATE ON log_tiles BEGIN SELECT RAISE(ABORT, 'table log_tiles of the ledger takes no UPDATE'); END;
-- A tile that a wider one begins with may go: nothing is lost with it, and the
-- sequencer makes another at every batch.
CREATE TRIGGER log_tiles_delete BEFORE DELETE ON log_tiles
WHEN NOT EXISTS (SELECT 1 FROM log_tiles w WHERE w.level = OLD.level AND w.n = OLD.n AND w.width > OLD.width
	AND substr(w.data, 1, length(OLD.data)) = OLD.data)
BEGIN SELECT RAISE(ABORT, 'table log_tiles of the ledger takes no DELETE'); END;
CREATE TRIGGER log_cosignatures_update BEFORE UPDATE ON log_cosignatures BEGIN SELECT RAISE(ABORT, 'table log_cosignatures of the ledger takes no UPDATE'); END;
CREATE TRIGGER log_cosignatures_delete BEFORE DELETE ON log_cosignatures BEGIN SELECT RAISE(ABORT, 'table log_cosignatures of the ledger takes no DELETE'); END;
CREATE TRIGGER authority_update BEFORE UPDATE ON authority BEGIN SELECT RAISE(ABORT, 'table authority of the ledger takes no UPDATE'); END;
CREATE TRIGGER authority_delete BEFORE DELETE ON authority BEGIN SELECT RAISE(ABORT, 'table authority of the ledger takes no DELETE'); END;
CREATE TRIGGER bodies_update BEFORE UPDATE ON bodies BEGIN SELECT RAISE(ABORT, 'table bodies of the ledger takes no UPDATE'); END;
CREATE TRIGGER bodies_kept BEFORE DELETE ON bodies
WHEN OLD.class = 'permanent' OR EXISTS (SELECT 1 FROM legal_holds WHERE chain = OLD.chain)
BEGIN SELECT RAISE(ABORT, 'a body of the ledger is kept'); END;

-- INSERT OR REPLACE deletes without asking the triggers above.
CREATE TRIGGER entries_replace BEFORE INSERT ON entries WHEN EXISTS (SELECT 1 FROM entries WHERE serial = NEW.serial OR hash = NEW.hash OR (chain = NEW.chain AND n = NEW.n) OR (chain = NEW.chain AND key = NEW.key))
BEGIN SELECT RAISE(ABORT, 'table entries of the ledger has that row'); END;
CREATE TRIGGER entries_replace_body BEFORE INSERT ON entries WHEN EXISTS (SELECT 1 FROM entries WHERE substr(bytes, -73, 71) = substr(NEW.bytes, -73, 71))
BEGIN SELECT RAISE(ABORT, 'table entries of the ledger has an entry with that body'); END;
CREATE TRIGGER log_batches_replace BEFORE INSERT ON log_batches WHEN EXISTS (SELECT 1 FROM log_batches WHERE n = NEW.n)
BEGIN SELECT RAISE(ABORT, 'table log_batches of the ledger has that row'); END;
CREATE TRIGGER log_index_replace BEFORE INSERT ON log_index WHEN EXISTS (SELECT 1 FROM log_index WHERE place = NEW.place OR serial = NEW.serial)
BEGIN SELECT RAISE(ABORT, 'table log_index of the ledger has that row'); END;
CREATE TRIGGER log_tiles_replace BEFORE INSERT ON log_tiles WHEN EXISTS (SELECT 1 FROM log_tiles WHERE level = NEW.level AND n = NEW.n AND width = NEW.width)
BEGIN SELECT RAISE(ABORT, 'table log_tiles of the ledger has that row'); END;
CREATE TRIGGER log_cosignatures_replace BEFORE INSERT ON log_cosignatures WHEN EXISTS (SELECT 1 FROM log_cosignatures WHERE serial = NEW.serial)
BEGIN SELECT RAISE(ABORT, 'table log_cosignatures of the ledger has that row'); END;
CREATE TRIGGER authority_replace BEFORE INSERT ON authority WHEN EXISTS (SELECT 1 FROM authority WHERE n = NEW.n OR digest = NEW.digest OR prev = NEW.prev)
BEGIN SELECT RAISE(ABORT, 'table authority of the ledger has that row'); END;
CREATE TRIGGER bodies_replace BEFORE INSERT ON bodies WHEN EXISTS (SELECT 1 FROM bodies WHERE digest = NEW.digest)
BEGIN SELECT RAISE(ABORT, 'table bodies of the ledger has that row'); END;
-- +goose StatementEnd

-- +goose Down
-- A ledger is not taken back.
SELECT abs(-9223372036854775808);
