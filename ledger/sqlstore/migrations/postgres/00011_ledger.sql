-- The whole is one statement to goose, which takes megabytes for each line of SQL that it has to
-- look at for the end of one.

-- +goose Up
-- +goose StatementBegin

-- Versions before this one are of builds that were never released.

-- The log. Rows of these tables are inserted and read, and nothing else.
CREATE TABLE entries (
	serial BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	hash   BYTEA NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
	chain  TEXT NOT NULL,
	n      BIGINT NOT NULL,
	key    TEXT NOT NULL,
	kind   TEXT NOT NULL,
	bytes  BYTEA NOT NULL CHECK (octet_length(bytes) <= 16384 AND position('\x0a'::bytea IN bytes) = 0),
	UNIQUE (chain, n),
	UNIQUE (chain, key)
);
-- No two entries name one body, which each entry does at its end: to prune it is stated once.
CREATE UNIQUE INDEX entries_body ON entries (substr(bytes, octet_length(bytes) - 72, 71)) WHERE octet_length(bytes) > 73;
-- Rows of entries that are none. Only set_aside moves them here, and nobody takes them away.
CREATE TABLE aside (
	serial BIGINT PRIMARY KEY,
	hash   BYTEA NOT NULL,
	chain  TEXT NOT NULL,
	n      BIGINT NOT NULL,
	key    TEXT NOT NULL,
	kind   TEXT NOT NULL,
	bytes  BYTEA NOT NULL,
	why    TEXT NOT NULL CHECK (octet_length(why) <= 2000),
	at     BIGINT NOT NULL,
	-- Whether there was the body that the bytes name, if any, as that of the entry and sealed as
	-- its run is, and the entry before in the chain: who adds them later cannot make it look as
	-- if an entry had been set aside.
	bodied   BOOLEAN NOT NULL,
	followed BOOLEAN NOT NULL
);
-- Entries that have no place in the tree yet. Writers insert, the sequencer
-- deletes: what one look cannot see yet, a later one does.
CREATE TABLE pending (
	serial BIGINT PRIMARY KEY
);

CREATE TABLE log_batches (
	n          BIGINT PRIMARY KEY,
	size       BIGINT NOT NULL CHECK (size >= 0), -- of the log before the batch
	grown      BIGINT NOT NULL CHECK (grown >= size),
	checkpoint BYTEA NOT NULL CHECK (octet_length(checkpoint) <= 65536),
	at         BIGINT NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp()) * 1000)
);
CREATE INDEX log_batches_grown ON log_batches (grown, n);
CREATE TABLE log_index (
	place  BIGINT PRIMARY KEY,
	serial BIGINT NOT NULL UNIQUE REFERENCES entries
);
-- The places of a transaction that is not committed: its checkpoint comes with it.
CREATE TABLE placings (
	high BIGINT NOT NULL
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
	size       BIGINT NOT NULL, -- that of a row of log_batches
	checkpoint BYTEA NOT NULL CHECK (octet_length(checkpoint) <= 65536)
);
-- Cosignatures are looked for by the size of their checkpoint, which may be an
-- older one: a witness takes its time.
CREATE INDEX log_cosignatures_size ON log_cosignatures (size);

-- Bodies are the one thing that can be taken out, but for those of the class
-- permanent and of chains under legal hold.
CREATE TABLE bodies (
	digest TEXT PRIMARY KEY CHECK (digest = 'sha256:' || encode(sha256(bytes), 'hex')),
	chain  TEXT NOT NULL,
	class  TEXT NOT NULL,
	at     BIGINT NOT NULL, -- milliseconds since 1970
	subject_key TEXT,
	bytes  BYTEA NOT NULL CHECK (octet_length(bytes) <= 524288 AND position('\x0a'::bytea IN bytes) = 0),
	-- A body that is sealed names the key at its beginning.
	CHECK (CASE WHEN substr(bytes, 1, 10) = '{"sealed":' THEN subject_key IS NOT NULL AND substr(bytes, 11, 9 + octet_length(subject_key)) = convert_to('{"key":"' || subject_key || '"', 'UTF8') ELSE subject_key IS NULL END)
);
CREATE INDEX bodies_age ON bodies (class, at);
CREATE INDEX bodies_subject ON bodies (subject_key) WHERE subject_key IS NOT NULL;
-- Bodies that were pruned before their entries had a place.
CREATE TABLE pruned_early (
	digest TEXT PRIMARY KEY,
	chain  TEXT NOT NULL,
	class  TEXT NOT NULL,
	at     BIGINT NOT NULL
);
-- Each is wrapped with a key that lies outside the database: see package keyring.
CREATE TABLE subject_keys (
	id         TEXT PRIMARY KEY CHECK (id ~ '^[0-9a-f]{32}$'),
	lookup     TEXT NOT NULL UNIQUE CHECK (lookup ~ '^[0-9a-f]{64}$'),               -- what the subject's name is found by
	generation TEXT NOT NULL CHECK (generation ~ '^[0-9]{8}-[0-9a-f]{16}$'), -- of the key that wraps
	wrapped    BYTEA NOT NULL CHECK (octet_length(wrapped) <= 4096)
);
-- The generation of that key which wraps all of them: one row, once there is any.
CREATE TABLE keyring (
	one        SMALLINT PRIMARY KEY CHECK (one = 1),
	generation TEXT NOT NULL
);
CREATE TABLE legal_holds (
	chain TEXT PRIMARY KEY
);
-- What was pruned, with the entry that states it: neither is committed without the other.
CREATE TABLE prunings (
	id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	class  TEXT NOT NULL,
	before BIGINT NOT NULL, -- milliseconds since 1970
	count  BIGINT NOT NULL,
	entry  BIGINT UNIQUE -- its serial, also once it was set aside
);

CREATE TABLE blobs (
	digest TEXT PRIMARY KEY CHECK (digest = 'sha256:' || encode(sha256(bytes), 'hex')),
	bytes  BYTEA NOT NULL
);

-- State that the log tells the story of. doc is the entity as JSON; columns
-- beside it serve to find it. The bounds are beyond what a store writes: a body
-- of the log at most, and an evidence packet, sealed.
CREATE TABLE agent_identity (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	agent_id       TEXT PRIMARY KEY,
	persona_ref    TEXT NOT NULL,
	wallet_address TEXT NOT NULL,
	created_at     BIGINT NOT NULL
);
CREATE TABLE causal_hypothesis (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	hypothesis_id TEXT PRIMARY KEY,
	agent_id      TEXT NOT NULL,
	description   TEXT NOT NULL,
	inputs        TEXT NOT NULL,
	prediction    TEXT NOT NULL,
	risk_score    NUMERIC,
	created_at    BIGINT NOT NULL,
	state         TEXT NOT NULL,
	observed      TEXT CHECK (octet_length(observed) <= 262144),
	-- How many KPIs were observed.
	measured      INT NOT NULL DEFAULT 0,
	tool_id       TEXT NOT NULL,
	-- The key with which that of a run about a person is sealed, in place of description, inputs,
	-- prediction and risk_score; observed is sealed with it, too.
	subject_key   TEXT,
	sealed        TEXT,
	CHECK ((sealed IS NULL) = (subject_key IS NULL) AND (risk_score IS NULL) = (subject_key IS NOT NULL))
);
CREATE INDEX causal_hypothesis_tool ON causal_hypothesis (tool_id, serial);
CREATE INDEX causal_hypothesis_agent ON causal_hypothesis (agent_id, serial);
CREATE INDEX causal_hypothesis_subject ON causal_hypothesis (subject_key) WHERE subject_key IS NOT NULL;
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
	schema        TEXT NOT NULL CHECK (octet_length(schema) <= 4194304),
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
	doc          TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	PRIMARY KEY (name, version)
);
CREATE INDEX plans_name ON plans (name, serial);
CREATE INDEX plans_digest ON plans (digest);
CREATE TABLE runs (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	workflow  TEXT NOT NULL,
	root      TEXT NOT NULL,
	origin    TEXT NOT NULL,
	opened_at BIGINT NOT NULL,
	state     TEXT NOT NULL,
	doc       TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	-- The key under which everything that a run states is sealed, where the run is
	-- about a person. It stays when the key is deleted.
	subject_key TEXT,
	-- When the run was closed, in milliseconds since 1970.
	closed_at BIGINT,
	-- The output of a run that succeeded, sealed to its workflow where there are keys:
	-- an end that is asked for again is told with it.
	value     BYTEA,
	PRIMARY KEY (workflow, root)
);
CREATE INDEX runs_workflow ON runs (workflow, serial);
CREATE INDEX runs_root ON runs (root);
CREATE INDEX runs_origin ON runs (origin);
CREATE INDEX runs_subject ON runs (subject_key) WHERE subject_key IS NOT NULL;
CREATE INDEX runs_value ON runs (closed_at) WHERE value IS NOT NULL;
-- What has no end yet is looked through again and again.
CREATE INDEX runs_open ON runs (workflow, root) WHERE state = 'running';
-- A run is looked for by the name of its chain.
CREATE UNIQUE INDEX runs_chain ON runs (('run/' || workflow || '/' || root));
CREATE TABLE outcomes (
	workflow TEXT NOT NULL,
	root     TEXT NOT NULL,
	serial   BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	node     TEXT NOT NULL,
	visit    INT NOT NULL,
	element  INT NOT NULL,
	doc      TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	PRIMARY KEY (workflow, root, node, visit, element)
);
-- What runs were told: the last order says whether a run is paused. The texts stand in the log.
CREATE TABLE orders (
	workflow TEXT NOT NULL,
	root     TEXT NOT NULL,
	n        INT NOT NULL,
	kind     TEXT NOT NULL,
	digest   TEXT NOT NULL, -- that of what was signed, or ''
	PRIMARY KEY (workflow, root, n)
);
CREATE TABLE tasks (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	task_id    TEXT PRIMARY KEY,
	chain      TEXT NOT NULL,
	state      TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	doc        TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
);
CREATE TABLE signers (
	id  TEXT PRIMARY KEY,
	doc TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
);
CREATE TABLE budgets (
	agent    TEXT NOT NULL,
	currency TEXT NOT NULL,
	every    TEXT NOT NULL,
	parent   TEXT NOT NULL,
	lim      BIGINT NOT NULL, -- minor units, as pending and posted
	PRIMARY KEY (agent, currency)
);
-- What is used of a budget in a period.
CREATE TABLE budget_use (
	agent    TEXT NOT NULL,
	currency TEXT NOT NULL,
	period   TEXT NOT NULL,
	pending  BIGINT NOT NULL CHECK (pending >= 0),
	posted   BIGINT NOT NULL CHECK (posted >= 0),
	PRIMARY KEY (agent, currency, period)
);
CREATE TABLE holds (
	id         TEXT PRIMARY KEY,
	agent      TEXT NOT NULL,
	currency   TEXT NOT NULL,
	charges    TEXT NOT NULL, -- JSON
	amount     BIGINT NOT NULL,
	status     TEXT NOT NULL,
	overdraft  BOOLEAN NOT NULL,
	running    BOOLEAN NOT NULL,
	posted     BIGINT,
	expires_at BIGINT NOT NULL,
	call       TEXT, -- JSON
	root       TEXT NOT NULL,
	origin     TEXT NOT NULL,
	prob       BOOLEAN NOT NULL
);
CREATE INDEX holds_expiry ON holds (expires_at) WHERE status = 'pending' AND NOT running;
CREATE INDEX holds_calls ON holds (expires_at) WHERE status = 'pending' AND running AND root <> '';
CREATE INDEX holds_prob ON holds (origin) WHERE prob;
CREATE TABLE decisions (
	id    TEXT PRIMARY KEY,
	invocation TEXT NOT NULL,
	chain TEXT NOT NULL,
	-- What is called, and when that was decided.
	operation TEXT NOT NULL DEFAULT '',
	at    BIGINT NOT NULL DEFAULT 0,
	-- Of the action's digest; nowhere in the log.
	salt  BYTEA,
	doc   TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
);
CREATE INDEX decisions_operation ON decisions (operation, at);
CREATE INDEX decisions_invocation ON decisions (invocation);
CREATE TABLE barriers (
	id         TEXT PRIMARY KEY,
	chain      TEXT NOT NULL,
	origin     TEXT NOT NULL,
	state      TEXT NOT NULL,
	expires_at BIGINT NOT NULL,
	refused    BIGINT NOT NULL,
	doc        TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
);
CREATE INDEX barriers_state ON barriers (state, expires_at);
CREATE TABLE approvals (
	serial BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
	id          TEXT PRIMARY KEY,
	chain       TEXT NOT NULL,
	barrier     TEXT NOT NULL,
	received_at BIGINT NOT NULL,
	accepted    BOOLEAN NOT NULL,
	doc         TEXT NOT NULL CHECK (octet_length(doc) <= 4194304)
);
CREATE INDEX approvals_barrier ON approvals (barrier, serial);
-- Calls on which effects rely, as the role that calls effects states them.
CREATE TABLE checks (
	workflow TEXT NOT NULL,
	origin   TEXT NOT NULL,
	node     TEXT NOT NULL,
	visit    INT NOT NULL,
	number   INT NOT NULL,
	chain    TEXT NOT NULL,
	barrier  TEXT NOT NULL,
	doc      TEXT NOT NULL CHECK (octet_length(doc) <= 4194304),
	PRIMARY KEY (workflow, origin, node, visit, number)
);
CREATE INDEX checks_chain ON checks (chain);
-- What approvals count for: each, for one invocation of each of its actions.
CREATE TABLE consumptions (
	approval   TEXT NOT NULL,
	action     TEXT NOT NULL,
	invocation TEXT NOT NULL,
	PRIMARY KEY (approval, action)
);
CREATE TABLE invocations (
	id             TEXT PRIMARY KEY,
	chain          TEXT NOT NULL, -- of the run that was last permitted to call
	origin         TEXT NOT NULL,
	-- Of the action's digest; nowhere in the log. Erasing a subject removes it.
	salt           BYTEA,
	-- The key with which salt, permit, output and its digest are sealed, where the run is
	-- about a person.
	subject_key    TEXT,
	action_digest  TEXT NOT NULL,
	decision_id    TEXT NOT NULL UNIQUE,
	task_id        TEXT NOT NULL,
	hold_id        TEXT NOT NULL,
	repeatable     BOOLEAN NOT NULL,
	permit         TEXT NOT NULL, -- JSON
	permit_until   BIGINT NOT NULL,
	unused         BOOLEAN NOT NULL,
	token          TEXT NOT NULL, -- of the last claim: its digest until the call has ended
	state          TEXT NOT NULL CHECK (state IN ('permitted', 'calling', 'released', 'settled', 'unknown')),
	attempt        INT NOT NULL,
	doubted        BOOLEAN NOT NULL DEFAULT FALSE,
	call_not_after BIGINT,
	output_digest  TEXT NOT NULL,
	-- What the call answered, sealed to the invocation where there are keys.
	output         BYTEA,
	CHECK (state NOT IN ('calling', 'unknown') OR call_not_after IS NOT NULL)
);
CREATE INDEX invocations_origin ON invocations (origin);
CREATE INDEX invocations_chain ON invocations (chain);
CREATE INDEX invocations_hold ON invocations (hold_id) WHERE hold_id <> '';
CREATE INDEX invocations_calling ON invocations (call_not_after) WHERE state = 'calling';
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
	doc    TEXT NOT NULL CHECK (octet_length(doc) <= 8388608)
);
-- Which body an evidence packet stands behind: it goes with that.
CREATE TABLE evidence_refs (
	packet TEXT NOT NULL,
	body   TEXT NOT NULL,
	PRIMARY KEY (packet, body)
);
CREATE INDEX evidence_refs_body ON evidence_refs (body);
CREATE TABLE authority (
	n         BIGINT PRIMARY KEY,
	digest    TEXT NOT NULL UNIQUE,
	prev      TEXT NOT NULL UNIQUE,
	statement TEXT NOT NULL CHECK (octet_length(statement) <= 524288)
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'table % of the ledger takes no %', TG_TABLE_NAME, TG_OP USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE FUNCTION keep_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM log_index i WHERE i.serial = OLD.serial)
			OR NOT EXISTS (SELECT FROM aside a WHERE a.serial = OLD.serial AND a.hash = OLD.hash AND a.bytes = OLD.bytes) THEN
		RAISE EXCEPTION 'table entries of the ledger takes no DELETE' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN OLD;
END $$;
-- A row says what its text says, goes on from another, and is over entries that have places.
-- Whether the log's key has signed it, a database cannot tell.
CREATE FUNCTION fit_checkpoint() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM log_batches b WHERE b.n >= NEW.n) THEN
		RAISE EXCEPTION 'table log_batches of the ledger has that row already' USING ERRCODE = 'unique_violation';
	END IF;
	IF NEW.n <> (SELECT coalesce(max(b.n), 0) + 1 FROM log_batches b)
			OR NEW.size <> 0 AND NOT EXISTS (SELECT FROM log_batches b WHERE b.grown = NEW.size)
			OR NEW.grown > (SELECT coalesce(max(i.place), -1) + 1 FROM log_index i)
			OR split_part(convert_from(NEW.checkpoint, 'UTF8'), chr(10), 2) <> NEW.grown::text
			-- Readers look at all of one size.
			OR (SELECT count(*) FROM log_batches b WHERE b.grown = NEW.grown) >= 100 THEN
		RAISE EXCEPTION 'table log_batches of the ledger has no such next row' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	NEW.at := floor(extract(epoch FROM clock_timestamp()) * 1000);
	RETURN NEW;
END $$;
-- Witnesses cosign checkpoints that are there.
CREATE FUNCTION fit_cosignature() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM log_batches b WHERE b.grown = NEW.size) THEN
		RAISE EXCEPTION 'table log_batches of the ledger has no row of that size' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NEW;
END $$;
-- Places have no gaps, and are those of a checkpoint.
CREATE FUNCTION fit_places() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE low BIGINT; high BIGINT; many BIGINT;
BEGIN
	SELECT min(f.place), max(f.place), count(*) INTO low, high, many FROM fresh f;
	IF TG_RELID <> 'log_index'::regclass OR many > 0 AND (high - low + 1 <> many OR low <> 0 AND NOT EXISTS (SELECT FROM log_index i WHERE i.place = low - 1)) THEN
		RAISE EXCEPTION 'table log_index of the ledger takes only the next places' USING ERRCODE = 'unique_violation';
	END IF;
	IF many > 0 THEN
		INSERT INTO placings (high) VALUES (high);
	END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION places_counted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	IF TG_RELID <> 'placings'::regclass OR NOT EXISTS (SELECT FROM log_batches b WHERE b.grown > NEW.high) THEN
		RAISE EXCEPTION 'table log_index of the ledger takes places with their checkpoint' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	DELETE FROM placings p WHERE p.high = NEW.high;
	RETURN NULL;
END $$;
-- A tile is over entries that have places, and goes on from the narrower ones.
CREATE FUNCTION fit_tile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.level NOT BETWEEN 0 AND 6 OR NEW.n NOT BETWEEN 0 AND 1::bigint << 54 OR NEW.width NOT BETWEEN 1 AND 256 OR octet_length(NEW.data) <> 32 * NEW.width
			OR (NEW.n::numeric * 256 + NEW.width) * 256::numeric ^ NEW.level > (SELECT coalesce(max(i.place), -1) + 1 FROM log_index i)
			OR EXISTS (SELECT FROM log_tiles w WHERE (w.level, w.n) = (NEW.level, NEW.n)
				AND substr(w.data, 1, least(octet_length(w.data), octet_length(NEW.data))) <> substr(NEW.data, 1, least(octet_length(w.data), octet_length(NEW.data)))) THEN
		RAISE EXCEPTION 'table log_tiles of the ledger has no such tile' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NEW;
END $$;
CREATE FUNCTION keep_body() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.class = 'permanent' OR EXISTS (SELECT FROM legal_holds WHERE chain = OLD.chain) THEN
		RAISE EXCEPTION 'body % of the ledger is kept', OLD.digest USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN OLD;
END $$;
-- A tile that a wider one begins with may go: nothing is lost with it, and the
-- sequencer makes another at every batch.
CREATE FUNCTION keep_tile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM log_tiles w WHERE w.level = OLD.level AND w.n = OLD.n AND w.width > OLD.width
			AND substr(w.data, 1, length(OLD.data)) = OLD.data) THEN
		RAISE EXCEPTION 'table log_tiles of the ledger takes no DELETE' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN OLD;
END $$;
DO $$
DECLARE t TEXT;
BEGIN
	FOREACH t IN ARRAY ARRAY['aside', 'log_batches', 'log_index', 'log_cosignatures', 'authority'] LOOP
		EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', t);
		EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', t);
	END LOOP;
	CREATE TRIGGER append_only BEFORE UPDATE ON entries FOR EACH ROW EXECUTE FUNCTION refuse_change();
	CREATE TRIGGER kept BEFORE DELETE ON entries FOR EACH ROW EXECUTE FUNCTION keep_entry();
	CREATE TRIGGER never_emptied BEFORE TRUNCATE ON entries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
	CREATE TRIGGER fits BEFORE INSERT ON log_batches FOR EACH ROW EXECUTE FUNCTION fit_checkpoint();
	CREATE TRIGGER fits BEFORE INSERT ON log_cosignatures FOR EACH ROW EXECUTE FUNCTION fit_cosignature();
	CREATE TRIGGER fits AFTER INSERT ON log_index REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION fit_places();
	CREATE CONSTRAINT TRIGGER counted AFTER INSERT ON placings DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION places_counted();
	CREATE TRIGGER fits BEFORE INSERT ON log_tiles FOR EACH ROW EXECUTE FUNCTION fit_tile();
	CREATE TRIGGER append_only BEFORE UPDATE ON log_tiles FOR EACH ROW EXECUTE FUNCTION refuse_change();
	CREATE TRIGGER kept BEFORE DELETE ON log_tiles FOR EACH ROW EXECUTE FUNCTION keep_tile();
	CREATE TRIGGER never_emptied BEFORE TRUNCATE ON log_tiles FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
	CREATE TRIGGER never_changed BEFORE UPDATE ON bodies FOR EACH ROW EXECUTE FUNCTION refuse_change();
	CREATE TRIGGER kept BEFORE DELETE ON bodies FOR EACH ROW EXECUTE FUNCTION keep_body();
	CREATE TRIGGER never_emptied BEFORE TRUNCATE ON bodies FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
	CREATE TRIGGER never_changed BEFORE UPDATE ON evidence_refs FOR EACH ROW EXECUTE FUNCTION refuse_change();
END $$;

-- Pruning is by class and age alone: whoever may call this, and may delete
-- nothing, cannot choose what goes. What is kept, the trigger on bodies keeps.
CREATE FUNCTION prune_bodies(what TEXT, earlier BIGINT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE gone BIGINT;
BEGIN
	-- No legal hold is placed meanwhile, and those that are there are seen.
	PERFORM pg_advisory_xact_lock(hashtextextended('ledger', 7));
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'bodies of the ledger are pruned as they are now' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	WITH g AS (
		DELETE FROM bodies b WHERE b.class = what AND b.at < earlier AND b.chain NOT IN (SELECT h.chain FROM legal_holds h) RETURNING b.digest, b.chain, b.class, b.at
	), early AS (
		INSERT INTO pruned_early (digest, chain, class, at) SELECT g.digest, g.chain, g.class, g.at FROM g WHERE g.chain IN (SELECT e.chain FROM entries e WHERE NOT EXISTS (SELECT FROM log_index i WHERE i.serial = e.serial))
		ON CONFLICT DO NOTHING
	) SELECT count(*) INTO gone FROM g;
	IF gone > 0 THEN
		INSERT INTO prunings (class, before, count) VALUES (what, earlier, gone);
	END IF;
	RETURN gone;
END $$;
-- What was pruned is stated in the same transaction, after it.
CREATE FUNCTION pruning_stated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE e RECORD; said TEXT; of BIGINT;
BEGIN
	FOR e IN SELECT x.serial, x.n, x.key, x.bytes FROM entries x WHERE x.chain = 'ledger' AND x.kind = 'body.pruned'
			AND NOT EXISTS (SELECT FROM prunings p WHERE p.entry = x.serial) ORDER BY x.n DESC LOOP
		said := entry_data(e.bytes, 'permanent');
		IF e.key = 'body.pruned/' || e.n AND said = '{"before":' || instant(NEW.before) || ',"class":' || quoted(NEW.class)
				|| ',"count":' || NEW.count || ',"reason":' || quoted(said::json ->> 'reason') || '}' THEN
			of := e.serial;
			EXIT;
		END IF;
	END LOOP;
	IF of IS NULL OR TG_RELID <> 'prunings'::regclass THEN
		RAISE EXCEPTION 'what is pruned of the ledger is stated' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	UPDATE prunings SET entry = of WHERE id = NEW.id;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stated AFTER INSERT ON prunings DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pruning_stated();
CREATE FUNCTION stated_pruning() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	IF TG_RELID <> 'entries'::regclass OR NOT EXISTS (SELECT FROM prunings WHERE entry = NEW.serial) THEN
		RAISE EXCEPTION 'nothing of the ledger was pruned as entry % states', NEW.key USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER pruned AFTER INSERT ON entries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind = 'body.pruned')
	EXECUTE FUNCTION stated_pruning();

-- Whether there is the body that an entry names, stored as that entry's, and sealed as its run is.
-- What is no entry names none.
CREATE FUNCTION entry_bodied(its_bytes BYTEA) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE said RECORD;
BEGIN
	SELECT e.body, e.chain, e.class, floor(extract(epoch FROM e.at) * 1000) AS at INTO said
		FROM json_to_record(convert_from(its_bytes, 'UTF8')::json) AS e (body TEXT, chain TEXT, class TEXT, at TIMESTAMPTZ);
	RETURN EXISTS (SELECT FROM bodies b WHERE b.digest = said.body AND (b.chain, b.class, b.at) = (said.chain, said.class, said.at)
			AND (NOT starts_with(b.chain, 'run/') OR b.subject_key IS NOT DISTINCT FROM (SELECT r.subject_key FROM runs r WHERE 'run/' || r.workflow || '/' || r.root = b.chain)))
		OR EXISTS (SELECT FROM pruned_early p WHERE p.digest = said.body AND (p.chain, p.class, p.at) = (said.chain, said.class, said.at));
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
	RETURN false;
END $$;

-- A text, and an instant in milliseconds since 1970, as entries and bodies have them.
CREATE FUNCTION quoted(what TEXT) RETURNS TEXT LANGUAGE sql STABLE AS $$
	SELECT replace(replace(to_json(what)::text, chr(8232), '\u2028'), chr(8233), '\u2029')
$$;
CREATE FUNCTION instant(ms BIGINT) RETURNS TEXT LANGUAGE sql STABLE AS $$
	SELECT '"' || to_char(timestamp 'epoch' + ms / 1000 * interval '1 second' + ms % 1000 * interval '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"'
		WHERE ms BETWEEN -62135596800000 AND 253402300799999 -- the years 1 to 9999
$$;
-- An amount in minor units, as entries have it, or NULL in a currency that ISO 4217 does not list.
CREATE FUNCTION sum_of(minor BIGINT, unit TEXT) RETURNS TEXT LANGUAGE sql STABLE AS $$
	SELECT '{"amount":"' || round(minor * 10::numeric ^ -p.places, p.places) || '","currency":"' || unit || '"}' FROM (VALUES
		(0, ' BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF '),
		(2, ' AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE'
			' CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR'
			' KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB'
			' PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY'
			' TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG '),
		(3, ' BHD IQD JOD KWD LYD OMR TND ')) AS p (places, units) WHERE unit ~ '^[A-Z]{3}$' AND position(' ' || unit || ' ' IN p.units) > 0
$$;
-- JSON as package plan writes it, or something else than it is, so deep in the text of a body. What
-- is beyond the bounds of package schemas is refused.
CREATE FUNCTION canonical(what JSON, deep INT DEFAULT 2) RETURNS TEXT LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE its TEXT := json_typeof(what);
BEGIN
	IF deep >= 128 AND its IN ('object', 'array')
			OR its = 'number' AND (octet_length(what #>> '{}') > 512 OR substring(what #>> '{}' FROM '[eE][-+]?([0-9]+)$')::numeric > 400) THEN
		RAISE EXCEPTION 'no entry of the ledger says what is so deep, or such a number' USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN CASE its
		WHEN 'object' THEN (SELECT '{' || coalesce(string_agg(quoted(m.k) || ':' || canonical(m.v, deep + 1), ',' ORDER BY m.k COLLATE "C"), '') || '}'
			FROM json_each(what) AS m (k, v) HAVING count(*) = count(DISTINCT m.k))
		WHEN 'array' THEN (SELECT '[' || coalesce(string_agg(canonical(a.v, deep + 1), ',' ORDER BY a.n), '') || ']' FROM json_array_elements(what) WITH ORDINALITY AS a (v, n))
		WHEN 'string' THEN quoted(what #>> '{}')
		ELSE coalesce(what #>> '{}', 'null') END;
END $$;
-- Whether a text is sealed with the key, as package ledger seals.
CREATE FUNCTION is_sealed(what TEXT, key TEXT) RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
	SELECT starts_with(what, '{"sealed":{"key":"' || key || '",')
		AND what ~ '^{"sealed":{"key":"[0-9a-f]{32}","nonce":"[A-Za-z0-9+/]{16}","text":"([A-Za-z0-9+/]{4}){5,}([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)"}}$'
$$;
-- What an entry says that is kept so long: the data of its body, '' where that is sealed, and NULL if
-- the sequencer sets it aside whatever the data are.
CREATE FUNCTION entry_data(its_bytes BYTEA, lasting TEXT) RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE e RECORD; b RECORD; it TEXT; refs TEXT;
BEGIN
	it := convert_from(its_bytes, 'UTF8');
	SELECT * INTO e FROM json_to_record(it::json) AS e (origin TEXT, chain TEXT, n BIGINT, prev TEXT, key TEXT, kind TEXT, at TIMESTAMPTZ, class TEXT,
		agent TEXT, plan TEXT, run TEXT, node TEXT, visit BIGINT, element BIGINT, task TEXT, refs JSON, body TEXT);
	SELECT string_agg('{"name":' || quoted(r.name) || ',"digest":"' || r.digest || '"}', ',' ORDER BY r.name COLLATE "C") INTO refs
		FROM json_to_recordset(e.refs) AS r (name TEXT, digest TEXT)
		HAVING count(*) <= 64 AND count(*) = count(DISTINCT r.name) AND bool_and(r.digest ~ '^sha256:[0-9a-f]{64}$' AND octet_length(r.name) BETWEEN 1 AND 1024 AND r.name !~ '[\u0001-\u001f\u007f]');
	IF it IS DISTINCT FROM '{"format":"chimera.ai/ledger/entry/v1","origin":' || quoted(e.origin) || ',"chain":' || quoted(e.chain) || ',"n":' || e.n
				|| ',"prev":"' || e.prev || '","key":' || quoted(e.key) || ',"kind":' || quoted(e.kind)
				|| ',"at":' || instant(floor(extract(epoch FROM e.at) * 1000)::bigint) || ',"class":"' || lasting || '"'
				|| concat(',"agent":' || quoted(nullif(e.agent, '')), ',"plan":' || quoted(nullif(e.plan, '')), ',"run":' || quoted(nullif(e.run, '')),
					',"node":' || quoted(nullif(e.node, '')), ',"visit":' || nullif(greatest(e.visit, 0), 0), ',"element":' || nullif(greatest(e.element, 0), 0),
					',"task":' || quoted(nullif(e.task, '')), ',"refs":[' || refs || ']')
				|| ',"body":"' || e.body || '"}'
			OR greatest(octet_length(e.origin), octet_length(e.chain), octet_length(e.key), octet_length(e.agent), octet_length(e.plan),
				octet_length(e.run), octet_length(e.node), octet_length(e.task)) > 1024
			OR concat(e.origin, e.chain, e.key, e.agent, e.plan, e.run, e.node, e.task) ~ '[\u0001-\u001f\u007f]'
			OR starts_with(e.chain, 'run/') AND NOT EXISTS (SELECT FROM runs r WHERE 'run/' || r.workflow || '/' || r.root = e.chain AND r.workflow = e.run)
			OR EXISTS (SELECT FROM entries f WHERE f.serial = coalesce((SELECT i.serial FROM log_index i WHERE i.place = 0), (SELECT min(g.serial) FROM entries g))
				AND convert_from(f.bytes, 'UTF8')::json ->> 'origin' <> e.origin)
			OR NOT entry_bodied(its_bytes) THEN
		RETURN NULL;
	END IF;
	SELECT convert_from(x.bytes, 'UTF8') AS says, x.subject_key INTO b FROM bodies x WHERE x.digest = e.body;
	IF b.subject_key IS NOT NULL THEN
		RETURN CASE WHEN lasting IN ('operational', 'evidence') AND is_sealed(b.says, b.subject_key) THEN '' END;
	END IF;
	RETURN CASE WHEN b.says ~ '^{"data":{.*},"salt":"[0-9a-f]{32}"}$' THEN substr(b.says, 9, length(b.says) - 51) END;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
	RETURN NULL;
END $$;
-- What the sequencer takes for no entry gives way. A row that has its place stays.
CREATE FUNCTION set_aside(which BIGINT[], reasons TEXT[]) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE gone BIGINT;
BEGIN
	INSERT INTO aside (serial, hash, chain, n, key, kind, bytes, why, at, bodied, followed)
		SELECT e.serial, e.hash, e.chain, e.n, e.key, e.kind, e.bytes, left(u.why, 500), floor(extract(epoch FROM clock_timestamp()) * 1000),
			entry_bodied(e.bytes),
			e.n = 0 OR EXISTS (SELECT FROM entries b WHERE b.chain = e.chain AND b.n = e.n - 1
				-- One that is set aside at once was none.
				AND (EXISTS (SELECT FROM log_index i WHERE i.serial = b.serial) OR NOT EXISTS (SELECT FROM unnest(which) AS w (serial) WHERE w.serial = b.serial)))
		FROM unnest(which, reasons) AS u (serial, why) JOIN entries e ON e.serial = u.serial
		WHERE NOT EXISTS (SELECT FROM log_index i WHERE i.serial = e.serial);
	DELETE FROM pending p WHERE p.serial = ANY (which) AND EXISTS (SELECT FROM aside a WHERE a.serial = p.serial);
	DELETE FROM entries e WHERE e.serial = ANY (which) AND EXISTS (SELECT FROM aside a WHERE a.serial = e.serial);
	GET DIAGNOSTICS gone = ROW_COUNT;
	RETURN gone;
END $$;

-- Packets that stand behind bodies that are all gone, and those of a key that is.
CREATE FUNCTION drop_packets() RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE gone BIGINT;
BEGIN
	DELETE FROM evidence e WHERE EXISTS (SELECT FROM evidence_refs r WHERE r.packet = e.digest)
		AND NOT EXISTS (SELECT FROM evidence_refs r JOIN bodies b ON b.digest = r.body LEFT JOIN subject_keys k ON k.id = b.subject_key
			WHERE r.packet = e.digest AND (b.subject_key IS NULL OR k.id IS NOT NULL));
	GET DIAGNOSTICS gone = ROW_COUNT;
	DELETE FROM evidence_refs r WHERE NOT EXISTS (SELECT FROM bodies b WHERE b.digest = r.body);
	RETURN gone;
END $$;

-- Whether a new entry is what its bytes say, now, and the next of its chain. Each role has a
-- policy that asks for it.
CREATE FUNCTION entry_follows(its_serial BIGINT, its_hash BYTEA, its_chain TEXT, its_n BIGINT, its_key TEXT, its_kind TEXT, its_bytes BYTEA) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE said RECORD; last BYTEA;
BEGIN
	-- An old snapshot would not show what was erased or placed since.
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RETURN false;
	END IF;
	SELECT * INTO said FROM json_to_record(convert_from(its_bytes, 'UTF8')::json) AS e (chain TEXT, n BIGINT, key TEXT, kind TEXT, prev TEXT, at TIMESTAMPTZ);
	IF (said.chain, said.n, said.key, said.kind) IS DISTINCT FROM (its_chain, its_n, its_key, its_kind)
			OR its_hash <> sha256('\x00'::bytea || its_bytes)
			-- No kind takes the key of another. Outcomes of nodes have one for all three kinds.
			OR NOT (its_key = its_kind OR starts_with(its_key, its_kind || '/') OR starts_with(its_kind, 'node.') AND starts_with(its_key, 'node/'))
			-- What may be said again and again is numbered by its place: nobody takes a number to come.
			OR its_kind IN ('run.closed', 'body.pruned', 'snapshot.taken') AND its_key <> its_kind || '/' || its_n
			-- A run begins once, and with nothing else.
			OR (its_kind = 'run.opened') <> (its_n = 0 AND starts_with(its_chain, 'run/'))
			-- Clocks may be set by a minute in the middle of a transaction, and nobody writes in one
			-- for a quarter of an hour after the clock was read.
			OR NOT coalesce(said.at BETWEEN greatest(transaction_timestamp() - interval '1 minute', clock_timestamp() - interval '15 minutes')
				AND clock_timestamp() + interval '1 minute', false) THEN
		RETURN false;
	END IF;
	IF its_n = 0 THEN
		RETURN coalesce(said.prev = '', false);
	END IF;
	SELECT e.hash INTO last FROM entries e WHERE e.chain = its_chain AND e.n = its_n - 1 AND e.serial < its_serial;
	RETURN coalesce(said.prev = encode(last, 'hex'), false);
END $$;

-- Whether a number is that of an entry without a place, one of the same statement included, and
-- with own of the same transaction: who adds another holds up the sequencer, which may add it too.
-- Each role has a policy that asks for it: other numbers would be looked at with each batch.
CREATE FUNCTION entry_waits(its_serial BIGINT, own BOOLEAN) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
	RETURN current_setting('transaction_isolation') = 'read committed'
		AND EXISTS (SELECT FROM entries e WHERE e.serial = its_serial AND (NOT own OR e.xmin = pg_current_xact_id()::xid))
		AND NOT EXISTS (SELECT FROM log_index i WHERE i.serial = its_serial);
END $$;

-- A run that has ended stays so.
CREATE FUNCTION keep_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the run % of the ledger has ended', NEW.workflow USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER ended BEFORE UPDATE ON runs FOR EACH ROW WHEN (OLD.state <> 'running' AND (NEW.state, NEW.closed_at) IS DISTINCT FROM (OLD.state, OLD.closed_at))
	EXECUTE FUNCTION keep_end();

-- A run that is new begins its chain, and is sealed as that says.
CREATE FUNCTION run_opened() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE its_chain TEXT := 'run/' || NEW.workflow || '/' || NEW.root; its_body TEXT;
BEGIN
	-- What convert_from returns has another collation than the index.
	SELECT convert_from(substr(e.bytes, octet_length(e.bytes) - 72, 71), 'UTF8') INTO its_body FROM entries e WHERE e.chain = its_chain AND e.n = 0;
	IF NOT EXISTS (SELECT FROM bodies b WHERE b.digest = its_body COLLATE "default" AND b.chain = its_chain AND b.subject_key IS NOT DISTINCT FROM NEW.subject_key) THEN
		RAISE EXCEPTION 'no chain of the ledger begins the run %', NEW.workflow USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER opened AFTER INSERT ON runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION run_opened();

-- The moves of an invocation, as package ledger has them: a call that has happened, or may
-- have, is permitted again only if it may be repeated, and one that was settled never is.
-- Which moves are whose, policies say.
CREATE FUNCTION keep_call() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE perhaps BOOLEAN := OLD.state IN ('calling', 'unknown'); moved BOOLEAN := NEW.state <> OLD.state; fits BOOLEAN;
	ends BOOLEAN := OLD.state = 'calling' AND moved AND OLD.token = encode(sha256(convert_to(NEW.token, 'UTF8')), 'hex');
BEGIN
	fits := CASE OLD.state
			WHEN 'settled' THEN (NEW.state, NEW.unused, NEW.decision_id, NEW.action_digest, NEW.attempt, NEW.token)
				= (OLD.state, OLD.unused, OLD.decision_id, OLD.action_digest, OLD.attempt, OLD.token)
				-- Pruning and erasing take what it has answered.
				AND (NEW.output IS NULL AND NEW.output_digest IN ('', OLD.output_digest) OR (NEW.output, NEW.output_digest) = (OLD.output, OLD.output_digest))
			WHEN 'permitted' THEN NEW.state IN ('permitted', 'calling')
			WHEN 'released' THEN NEW.state = 'released' OR NEW.state = 'permitted' AND NEW.decision_id <> OLD.decision_id
			WHEN 'calling' THEN NEW.state IN ('calling', 'released', 'settled', 'unknown')
			WHEN 'unknown' THEN NEW.state IN ('calling', 'released', 'settled', 'unknown')
			ELSE false END
		-- A call begins with another attempt.
		AND (NEW.attempt = OLD.attempt AND NOT (moved AND NEW.state = 'calling') OR NEW.attempt = OLD.attempt + 1 AND NEW.state = 'calling')
		-- It uses a permit that is unused, once the last call is over.
		AND (NEW.attempt = OLD.attempt OR OLD.unused AND NOT (OLD.state = 'calling' AND OLD.call_not_after > floor(extract(epoch FROM clock_timestamp()) * 1000)))
		AND NOT (NEW.unused AND NEW.state <> 'permitted' AND (moved OR NEW.attempt <> OLD.attempt))
		-- Another permit of what may have happened.
		AND NOT (perhaps AND (NEW.decision_id <> OLD.decision_id OR NEW.unused AND NOT OLD.unused OR NEW.attempt <> OLD.attempt) AND NOT (OLD.repeatable AND NEW.repeatable))
		AND NOT (perhaps AND NEW.repeatable AND NOT OLD.repeatable)
		-- What may have happened before another call stays doubted.
		AND NEW.doubted = (OLD.doubted OR perhaps AND NEW.attempt <> OLD.attempt)
		AND NOT (moved AND NEW.state = 'released' AND NEW.doubted)
		-- Decisions about an invocation are numbered, and the last counts.
		AND (NEW.decision_id = OLD.decision_id OR substring(NEW.decision_id FROM '/([0-9]{1,18})$')::bigint > substring(OLD.decision_id FROM '/([0-9]{1,18})$')::bigint)
		-- A permit is for one action, run, task and hold, until then, and is used once.
		AND (NEW.decision_id <> OLD.decision_id OR (NEW.action_digest, NEW.repeatable, NEW.permit_until) = (OLD.action_digest, OLD.repeatable, OLD.permit_until)
			AND NEW.permit IN (OLD.permit, 'null')) -- erasing takes it
		AND (NEW.unused = OLD.unused OR NEW.unused AND NEW.decision_id <> OLD.decision_id OR NOT NEW.unused AND (moved OR NEW.attempt <> OLD.attempt))
		-- Only the beginning and the end of a call say how long it may take, and only its end what it answered.
		AND (NEW.call_not_after IS NOT DISTINCT FROM OLD.call_not_after OR moved OR NEW.attempt <> OLD.attempt)
		AND (NEW.state = 'settled' OR NEW.output IS NULL AND NEW.output_digest = '')
		AND NOT (NEW.decision_id = OLD.decision_id AND (NEW.chain, NEW.origin, NEW.task_id, NEW.hold_id) <> (OLD.chain, OLD.origin, OLD.task_id, OLD.hold_id))
		-- A call takes a day at most, so that one which nobody ends is found abandoned.
		AND NOT (NEW.call_not_after IS DISTINCT FROM OLD.call_not_after AND NEW.call_not_after > floor(extract(epoch FROM clock_timestamp() + interval '25 hours') * 1000))
		-- Who has made the call has its token, and ends it. Others wait until it is over, and do not
		-- know what it did.
		AND (NEW.token = OLD.token OR NEW.attempt <> OLD.attempt OR ends)
		AND NOT (OLD.state = 'calling' AND (moved OR NEW.attempt <> OLD.attempt) AND NOT ends
			AND (NEW.state IN ('released', 'settled') OR OLD.call_not_after > floor(extract(epoch FROM clock_timestamp()) * 1000)));
	IF coalesce(fits, false) THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION 'the invocation % of the ledger is %', OLD.id, OLD.state USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER moves BEFORE UPDATE ON invocations FOR EACH ROW EXECUTE FUNCTION keep_call();

-- Marks a pending hold as running, once what it pays for is called, or ends it, with what it takes
-- from its budgets: whoever may call this, and change none of the tables, can end each hold once,
-- and spend no more than it holds.
CREATE FUNCTION move_hold(hold TEXT, next TEXT, runs BOOLEAN, spent BIGINT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE h RECORD;
BEGIN
	SELECT * INTO h FROM holds WHERE id = hold AND status = 'pending' FOR UPDATE;
	IF NOT FOUND OR next NOT IN ('pending', 'posted', 'voided', 'expired') OR (next = 'posted') <> (spent IS NOT NULL) OR spent < 0 OR spent > h.amount
			OR h.running AND NOT runs
			OR next = 'pending' AND runs AND NOT h.running AND NOT EXISTS (SELECT FROM invocations i WHERE i.hold_id = hold AND i.state = 'calling') THEN
		RETURN 0;
	END IF;
	UPDATE holds SET status = next, running = runs, posted = spent WHERE id = hold;
	IF next <> 'pending' THEN
		-- What the guardian's user has written there keeps no hold from ending.
		UPDATE budget_use u SET pending = greatest(u.pending - h.amount, 0), posted = least(u.posted::numeric + coalesce(spent, 0), 9223372036854775807)
			FROM json_to_recordset(h.charges::json) AS c (agent TEXT, period TEXT)
			WHERE u.agent = c.agent AND u.period = coalesce(c.period, '') AND u.currency = h.currency;
		UPDATE financial_ledger SET status = next WHERE tx_id = hold;
	END IF;
	RETURN 1;
END $$;

-- What holds, calls, tasks and checks become is stated in the same transaction, after it.
CREATE FUNCTION hold_stated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE what TEXT := CASE WHEN TG_OP = 'INSERT' THEN 'opened' WHEN NEW.status = 'pending' THEN 'running' ELSE NEW.status END;
BEGIN
	IF NOT EXISTS (SELECT FROM entries e WHERE e.chain = 'budget/' || NEW.currency AND e.key = 'hold.' || what || '/' || NEW.id)
			OR TG_OP = 'INSERT' AND (NEW.status <> 'pending' OR NEW.posted IS NOT NULL OR NEW.amount < 0
				OR NEW.running <> (coalesce(NEW.call::json ->> 'root', '') <> '')) -- a call without effect runs at once
			OR NEW.status <> 'pending' AND EXISTS (SELECT FROM invocations i WHERE i.hold_id = NEW.id AND i.hold_id <> '' AND i.state IN ('calling', 'unknown')) THEN
		RAISE EXCEPTION 'no entry of the ledger says that the hold % is %', NEW.id, what USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER opened AFTER INSERT ON holds DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold_stated();
CREATE CONSTRAINT TRIGGER stated AFTER UPDATE ON holds DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN ((OLD.status, OLD.running) IS DISTINCT FROM (NEW.status, NEW.running)) EXECUTE FUNCTION hold_stated();
CREATE FUNCTION call_stated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE said TEXT := 'invocation.' || NEW.state || '/' || NEW.id || '/' || NEW.attempt; fits BOOLEAN := true;
BEGIN
	IF TG_OP = 'INSERT' OR NEW.decision_id <> OLD.decision_id OR NEW.state = 'permitted' THEN
		fits := EXISTS (SELECT FROM entries e WHERE e.chain = NEW.chain AND e.key = 'invocation.permitted/' || NEW.decision_id);
	END IF;
	-- What may be called again is permitted again as it is.
	IF fits AND TG_OP = 'UPDATE' AND NEW.state <> 'permitted' AND (NEW.state, NEW.attempt) <> (OLD.state, OLD.attempt) THEN
		fits := EXISTS (SELECT FROM entries e WHERE e.chain = NEW.chain AND e.key = ANY (CASE
			WHEN NEW.state = 'calling' THEN ARRAY[said]
			WHEN OLD.state = 'unknown' THEN ARRAY[said || '/resolved']
			WHEN NEW.state = 'unknown' THEN ARRAY[said, said || '/abandoned']
			ELSE ARRAY[said] END));
	END IF;
	-- What it costs is held until it ends, and ends with it: else nobody could say any more how it did.
	IF fits AND TG_OP = 'UPDATE' AND NEW.state <> 'permitted' AND NEW.hold_id <> '' AND (NEW.state, NEW.attempt) <> (OLD.state, OLD.attempt) THEN
		fits := EXISTS (SELECT FROM holds h WHERE h.id = NEW.hold_id AND CASE NEW.state WHEN 'settled' THEN h.status = 'posted'
			WHEN 'released' THEN h.status = 'voided' ELSE h.status = 'pending' AND h.running END);
	END IF;
	-- A task that nobody can read any more stays as it is.
	IF fits AND TG_OP = 'UPDATE' AND NEW.state = 'settled' AND (NEW.subject_key IS NULL OR EXISTS (SELECT FROM subject_keys k WHERE k.id = NEW.subject_key)) THEN
		fits := NOT EXISTS (SELECT FROM tasks t WHERE t.task_id = NEW.task_id AND t.state <> 'executed');
	END IF;
	IF NOT fits THEN
		RAISE EXCEPTION 'no entry of the ledger says that the invocation % is %', NEW.id, NEW.state USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER permitted AFTER INSERT ON invocations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION call_stated();
CREATE CONSTRAINT TRIGGER stated AFTER UPDATE ON invocations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN ((OLD.state, OLD.attempt, OLD.decision_id) IS DISTINCT FROM (NEW.state, NEW.attempt, NEW.decision_id)) EXECUTE FUNCTION call_stated();
-- A task is executed with the call that executes it.
CREATE FUNCTION task_stated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	IF TG_RELID <> 'tasks'::regclass OR NOT EXISTS (SELECT FROM entries e WHERE e.chain = NEW.chain AND e.key = 'task.executed/' || NEW.task_id)
			-- It is what was signed, unless that is sealed.
			OR NOT (CASE WHEN starts_with(OLD.doc, '{"sealed":') THEN is_sealed(NEW.doc, substr(OLD.doc, 19, 32))
				ELSE NEW.doc::jsonb - ARRAY['executed_at', 'result', 'audit_ref', 'state'] = OLD.doc::jsonb - 'state' END)
			OR NOT EXISTS (SELECT FROM invocations i WHERE i.id = regexp_replace(NEW.task_id, '/[^/]*$', '') AND i.task_id = NEW.task_id AND i.state = 'settled') THEN
		RAISE EXCEPTION 'no entry of the ledger says that the task % is executed', NEW.task_id USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stated AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (NEW.state = 'executed' AND OLD.state <> 'executed') EXECUTE FUNCTION task_stated();
-- Checks of a node are numbered in the runs of their origin, from 1, without a gap.
CREATE FUNCTION check_stated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM entries e WHERE e.chain = NEW.chain AND e.key = 'check.made/' || NEW.node || '/' || NEW.visit || '/' || NEW.number)
			OR NOT EXISTS (SELECT FROM runs r WHERE 'run/' || r.workflow || '/' || r.root = NEW.chain AND (r.workflow, r.origin, r.state) = (NEW.workflow, NEW.origin, 'running'))
			OR NEW.barrier <> '' AND NOT EXISTS (SELECT FROM barriers b WHERE (b.id, b.origin, b.state) = (NEW.barrier, NEW.origin, 'approved'))
			OR NEW.number NOT BETWEEN 1 AND 10000 OR NEW.number > 1 AND NOT EXISTS (SELECT FROM checks c
				WHERE (c.workflow, c.origin, c.node, c.visit, c.number) = (NEW.workflow, NEW.origin, NEW.node, NEW.visit, NEW.number - 1)) THEN
		RAISE EXCEPTION 'no entry of the ledger says that % was checked', NEW.node USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stated AFTER INSERT ON checks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_stated();

-- A prediction is stated with its row, and what is observed of it is added: KPIs that it names, each
-- once, as the entry says that counts them. What is sealed is not looked at.
CREATE FUNCTION forecast_stated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE said TEXT; fresh JSON; fits BOOLEAN := false;
	its_key TEXT := CASE WHEN TG_OP = 'INSERT' THEN 'hypothesis.stated/' || NEW.hypothesis_id ELSE 'hypothesis.observed/' || NEW.hypothesis_id || '/' || NEW.measured END;
BEGIN
	IF TG_RELID = 'causal_hypothesis'::regclass THEN
		SELECT entry_data(e.bytes, 'evidence') INTO said FROM entries e WHERE e.chain = 'hypotheses/' || NEW.agent_id AND e.key = its_key;
	END IF;
	IF TG_OP = 'INSERT' THEN
		fits := (NEW.state, NEW.measured) = ('stated', 0) AND NEW.observed IS NULL
			AND CASE WHEN NEW.subject_key IS NULL THEN said = '{"agent_id":' || quoted(NEW.agent_id) || ',"created_at":' || instant(NEW.created_at) || ',"description":' || quoted(NEW.description)
					|| ',"hypothesis_id":' || quoted(NEW.hypothesis_id) || ',"inputs":' || NEW.inputs || ',"prediction":' || NEW.prediction || ',"risk_score":' || NEW.risk_score
					|| ',"state":"stated"' || concat(',"tool_id":' || quoted(nullif(NEW.tool_id, ''))) || '}'
				ELSE said = '' AND is_sealed(NEW.sealed, NEW.subject_key) END;
	ELSIF NEW.measured > OLD.measured AND NEW.measured <= 32 AND NEW.state = 'observed' THEN
		IF NEW.subject_key IS NOT NULL THEN
			fits := said = '' AND is_sealed(NEW.observed, NEW.subject_key);
		ELSIF said <> '' THEN
			fresh := said::json -> 'observed';
			fits := said = '{"hypothesis_id":' || quoted(NEW.hypothesis_id) || ',"observed":' || canonical(fresh) || '}'
				AND NEW.observed = canonical(NEW.observed::json)
				AND NEW.observed::jsonb = coalesce(OLD.observed, '{}')::jsonb || fresh::jsonb
				AND (SELECT count(*) FROM json_object_keys(fresh)) = NEW.measured - OLD.measured
				AND (SELECT count(*) FROM json_object_keys(NEW.observed::json)) = NEW.measured
				AND NOT EXISTS (SELECT FROM json_each(fresh) AS m (name, value) WHERE NOT (
					octet_length(m.name) BETWEEN 1 AND 256 AND m.name !~ '[\u0001-\u001f\u007f]'
					AND EXISTS (SELECT FROM json_array_elements(NEW.prediction::json -> 'kpis') AS k (kpi) WHERE k.kpi ->> 'variable' = m.name)
					AND CASE json_typeof(m.value) WHEN 'number' THEN octet_length(m.value #>> '{}') <= 32 AND abs((m.value #>> '{}')::numeric) <= 1e300
						WHEN 'string' THEN octet_length(m.value #>> '{}') BETWEEN 1 AND 256 AND m.value #>> '{}' !~ '[\u0001-\u001f\u007f]' ELSE false END));
		END IF;
	END IF;
	IF NOT coalesce(fits, false) THEN
		RAISE EXCEPTION 'no entry of the ledger says that of the hypothesis %', NEW.hypothesis_id USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stated AFTER INSERT ON causal_hypothesis DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION forecast_stated();
CREATE CONSTRAINT TRIGGER observed AFTER UPDATE ON causal_hypothesis DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION forecast_stated();

-- The entries on which these rows rest are such as the sequencer takes, and say what the rows do: who
-- may change the rows states nothing by what will be set aside, nor something else than they have.
CREATE FUNCTION entry_stands() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE money BOOLEAN := starts_with(NEW.kind, 'hold.'); said TEXT := entry_data(NEW.bytes, CASE WHEN money THEN 'financial' ELSE 'evidence' END);
	about TEXT := substr(NEW.key, length(NEW.kind) + 2); part TEXT[]; d JSON; h holds; i invocations; c checks; fits BOOLEAN := false; want TEXT := said;
	its_at TIMESTAMPTZ := (convert_from(NEW.bytes, 'UTF8')::json ->> 'at')::timestamptz;
BEGIN
	IF said <> '' THEN
		d := said::json;
	END IF;
	-- What waits for no place may get one behind what rests on it.
	IF said IS NULL OR TG_RELID <> 'entries'::regclass OR NOT EXISTS (SELECT FROM pending p WHERE p.serial = NEW.serial) THEN
		fits := false;
	ELSIF NOT (d -> 'snapshots' IS NULL OR canonical(d -> 'snapshots') ~ '^\{("after":"sha256:[0-9a-f]{64}"(,"before":"sha256:[0-9a-f]{64}")?|"before":"sha256:[0-9a-f]{64}")\}$') THEN
		fits := false;
	ELSIF money THEN
		SELECT * INTO h FROM holds x WHERE x.id = about;
		fits := NEW.chain = 'budget/' || h.currency AND coalesce(convert_from(NEW.bytes, 'UTF8')::json ->> 'agent', '') = h.agent
			AND (NEW.kind <> 'hold.running' OR h.status = 'pending');
		IF NEW.kind = 'hold.posted' THEN
			want := '{"id":' || quoted(about) || ',"posted":' || sum_of(h.posted, h.currency) || '}';
		ELSIF NEW.kind = 'hold.opened' THEN
			want := '{"agent":' || quoted(h.agent) || ',"amount":' || sum_of(h.amount, h.currency) || concat(',"call":' || canonical(h.call::json))
				|| ',"charges":' || canonical(h.charges::json) || ',"expires_at":' || instant(h.expires_at) || ',"id":' || quoted(about)
				|| CASE WHEN h.overdraft THEN ',"overdraft":true' ELSE '' END || CASE WHEN h.running THEN ',"running":true' ELSE '' END || ',"status":"pending"}';
		ELSE
			want := '{"id":' || quoted(about) || '}';
		END IF;
	ELSIF NEW.kind = 'invocation.permitted' THEN
		SELECT * INTO i FROM invocations x WHERE x.decision_id = about AND x.chain = NEW.chain;
		fits := i.id IS NOT NULL;
		want := '{"action_digest":' || quoted(i.action_digest) || ',"attempt":' || i.attempt || concat(',"call_not_after":' || instant(i.call_not_after))
			|| ',"decision_id":' || quoted(about) || CASE WHEN i.doubted THEN ',"doubted":true' ELSE '' END || concat(',"hold_id":' || quoted(nullif(i.hold_id, '')))
			|| ',"id":' || quoted(i.id) || ',"origin":' || quoted(i.origin) || ',"permit":' || canonical(i.permit::json) || ',"permit_until":' || instant(i.permit_until)
			|| CASE WHEN i.repeatable THEN ',"repeatable":true' ELSE '' END || ',"state":' || quoted(i.state) || ',"task_id":' || quoted(i.task_id) || ',"unused":true}';
	ELSIF NEW.kind = 'task.executed' THEN
		want := '{"executed_at":' || instant(floor(extract(epoch FROM (d ->> 'executed_at')::timestamptz) * 1000)::bigint)
			|| ',"result":' || canonical(d -> 'result') || ',"task_id":' || quoted(about) || '}';
		fits := EXISTS (SELECT FROM tasks x WHERE x.task_id = about AND x.chain = NEW.chain AND x.state = 'executed'
			AND (said = '' OR json_typeof(d -> 'result') = 'object' AND (d ->> 'executed_at')::timestamptz >= (x.doc::json -> 'signature' ->> 'signed_at')::timestamptz
				AND (x.doc::json ->> 'state', (x.doc::json ->> 'executed_at')::timestamptz, canonical(x.doc::json -> 'result'), x.doc::json ->> 'audit_ref')
				= ('executed', (d ->> 'executed_at')::timestamptz, canonical(d -> 'result'), 'ledger://' || (convert_from(NEW.bytes, 'UTF8')::json ->> 'origin') || '/' || encode(NEW.hash, 'hex'))));
	ELSIF NEW.kind = 'check.made' THEN
		part := regexp_match(about, '^(.*)/([0-9]+)/([0-9]+)$');
		SELECT x.* INTO c FROM runs r JOIN checks x ON (x.workflow, x.origin) = (r.workflow, r.origin)
			WHERE 'run/' || r.workflow || '/' || r.root = NEW.chain AND x.chain = NEW.chain AND x.node = part[1] AND x.visit = part[2]::int AND x.number = part[3]::int;
		fits := (c.number = 1 OR EXISTS (SELECT FROM checks x JOIN entries e ON e.chain = x.chain AND e.key = 'check.made/' || x.node || '/' || x.visit || '/' || x.number
				WHERE (x.workflow, x.origin, x.node, x.visit, x.number) = (c.workflow, c.origin, c.node, c.visit, c.number - 1) AND e.serial < NEW.serial))
			AND (c.doc = said AND CASE d ->> 'state' WHEN 'succeeded' THEN d ->> 'failure' IS NULL AND d ->> 'output_digest' IS NOT NULL
				WHEN 'failed' THEN d ->> 'failure' IS NOT NULL AND d ->> 'output_digest' IS NULL ELSE false END
			AND 'run/' || c.workflow || '/' || (d ->> 'root') = NEW.chain
			AND (convert_from(NEW.bytes, 'UTF8')::json ->> 'node', convert_from(NEW.bytes, 'UTF8')::json ->> 'visit') = (c.node, c.visit::text)
			OR said = '' AND is_sealed(c.doc, (SELECT r.subject_key FROM runs r WHERE 'run/' || r.workflow || '/' || r.root = NEW.chain)));
		want := '{' || concat('"barrier":' || quoted(nullif(c.barrier, '')) || ',', '"failure":' || quoted(nullif(d ->> 'failure', '')) || ',',
				'"input_digest":' || quoted(nullif(d ->> 'input_digest', '')) || ',')
			|| '"made_at":' || instant(floor(extract(epoch FROM (d ->> 'made_at')::timestamptz) * 1000)::bigint) || ',"node":' || quoted(c.node)
			|| ',"number":' || c.number || ',"origin":' || quoted(c.origin) || concat(',"output_digest":' || quoted(nullif(d ->> 'output_digest', '')))
			|| ',"root":' || quoted(d ->> 'root') || concat(',"snapshots":' || canonical(d -> 'snapshots')) || ',"state":' || quoted(d ->> 'state') || ',"visit":' || c.visit || ',"workflow":' || quoted(c.workflow) || '}';
	ELSIF NEW.kind = 'hypothesis.observed' THEN
		part := regexp_match(about, '^(.*)/([0-9]+)$');
		-- Its row has it, and was there before.
		fits := EXISTS (SELECT FROM causal_hypothesis x JOIN entries e ON e.chain = NEW.chain AND e.key = 'hypothesis.stated/' || part[1] AND e.serial < NEW.serial
			WHERE x.hypothesis_id = part[1] AND NEW.chain = 'hypotheses/' || x.agent_id AND x.measured::text = part[2]
			AND convert_from(NEW.bytes, 'UTF8')::json ->> 'agent' = x.agent_id AND (said = '') = (x.subject_key IS NOT NULL)
			AND (said = '' OR x.observed::jsonb @> (d -> 'observed')::jsonb));
		want := '{"hypothesis_id":' || quoted(part[1]) || ',"observed":' || canonical(d -> 'observed') || '}';
	ELSE
		part := regexp_match(about, '^(.*)/([0-9]+)(/resolved|/abandoned)?$');
		SELECT * INTO i FROM invocations x WHERE x.id = part[1];
		fits := i.chain = NEW.chain AND i.attempt::text = part[2] AND 'invocation.' || i.state = NEW.kind
			AND (i.state <> 'calling' OR part[3] IS NULL)
			AND (d -> 'stated' IS NULL OR json_typeof(d -> 'stated') = 'array' AND canonical(d -> 'stated') ~ '^\["([^"\\]|\\.)*"(,"([^"\\]|\\.)*")*\]$')
			AND (said = '' OR part[3] IS DISTINCT FROM '/abandoned' OR (d ->> 'abandoned') IS NOT NULL)
			-- A call begins while its permit may be used, and each state of a call is said once.
			AND (i.state <> 'calling' OR floor(extract(epoch FROM its_at) * 1000) <= i.permit_until)
			AND NOT EXISTS (SELECT FROM runs r JOIN entries e ON e.chain = 'run/' || r.workflow || '/' || r.root
				AND e.key IN (NEW.kind || '/' || part[1] || '/' || part[2], NEW.kind || '/' || part[1] || '/' || part[2] || '/resolved', NEW.kind || '/' || part[1] || '/' || part[2] || '/abandoned')
				WHERE r.origin = i.origin AND e.serial <> NEW.serial)
			-- What rests on its hold and its task comes after them.
			AND (i.hold_id = '' OR i.state = 'unknown' OR EXISTS (SELECT FROM holds x JOIN entries e ON e.chain = 'budget/' || x.currency
				AND e.key = CASE i.state WHEN 'calling' THEN 'hold.running' WHEN 'settled' THEN 'hold.posted' ELSE 'hold.voided' END || '/' || x.id WHERE x.id = i.hold_id AND e.serial < NEW.serial))
			AND NOT (i.state = 'settled' AND EXISTS (SELECT FROM tasks x WHERE x.task_id = i.task_id AND x.state = 'executed'
				AND NOT EXISTS (SELECT FROM entries e WHERE e.chain = x.chain AND e.key = 'task.executed/' || x.task_id AND e.serial < NEW.serial)))
			-- Whoever did not make the call waits as long as its entry says.
			AND ((d ->> 'abandoned') IS NULL OR part[3] = '/resolved' OR NOT EXISTS (SELECT FROM entries e WHERE e.chain = NEW.chain AND e.key = 'invocation.calling/' || part[1] || '/' || part[2]
				AND (nullif(entry_data(e.bytes, 'evidence'), '')::json ->> 'call_not_after')::timestamptz >= its_at))
			-- People state at one barrier what a call did that is unknown, and enough of them.
			AND (d -> 'stated' IS NULL OR part[3] = '/resolved' AND NOT i.repeatable AND EXISTS (SELECT FROM barriers b WHERE b.state = 'approved'
				AND (b.doc::json ->> 'outcome', json_array_length(b.doc::json -> 'actions'), b.doc::json #>> '{actions,0,invocation}', b.doc::json #>> '{actions,0,action}', b.doc::json #>> '{actions,0,decision}')
					= ('true', 1, i.id, i.action_digest, i.decision_id)
				AND b.id = (SELECT a.barrier FROM approvals a WHERE a.id = d #>> '{stated,0}')
				AND NOT EXISTS (SELECT FROM (SELECT x.id, lag(x.id) OVER (ORDER BY x.n) AS last FROM json_array_elements_text(d -> 'stated') WITH ORDINALITY AS x (id, n)) AS x
					WHERE x.id COLLATE "C" <= x.last COLLATE "C" OR NOT EXISTS (SELECT FROM approvals a WHERE a.id = x.id AND a.accepted AND a.barrier = b.id))));
		want := CASE WHEN i.state = 'calling' THEN '{"attempt":' || i.attempt || ',"call_not_after":' || instant(i.call_not_after) || ',"decision_id":' || quoted(i.decision_id)
				|| ',"id":' || quoted(i.id) || '}'
			ELSE '{' || CASE WHEN (d ->> 'abandoned') IS NOT NULL THEN '"abandoned":true,' ELSE '' END || '"attempt":' || i.attempt || ',"id":' || quoted(i.id)
				|| concat(',"output_digest":' || quoted(nullif(i.output_digest, '')), ',"snapshots":' || canonical(d -> 'snapshots'), ',"stated":' || canonical(d -> 'stated')) || '}' END;
	END IF;
	IF NOT coalesce(fits AND (said = '' OR said = want), false) THEN
		RAISE EXCEPTION 'no entry of the ledger says %, as its row does', NEW.key USING ERRCODE = 'integrity_constraint_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stands AFTER INSERT ON entries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind IN
		('hold.opened', 'hold.running', 'hold.posted', 'hold.voided', 'hold.expired', 'task.executed', 'check.made', 'hypothesis.observed',
		'invocation.permitted', 'invocation.calling', 'invocation.released', 'invocation.settled', 'invocation.unknown'))
	EXECUTE FUNCTION entry_stands();

-- Temporary tables are found first unless they are named last: a role that may
-- make one could show these functions legal holds, or tiles, of its own. A session
-- may also say how backslashes in their texts are read.
DO $$
DECLARE f TEXT;
BEGIN
	FOREACH f IN ARRAY ARRAY['keep_body()', 'keep_tile()', 'keep_entry()', 'fit_checkpoint()', 'fit_cosignature()', 'entry_waits(BIGINT, BOOLEAN)', 'places_counted()', 'hold_stated()', 'call_stated()', 'fit_places()', 'fit_tile()', 'refuse_change()', 'keep_end()', 'keep_call()', 'entry_bodied(BYTEA)', 'set_aside(BIGINT[], TEXT[])',
			'prune_bodies(TEXT, BIGINT)', 'drop_packets()', 'pruning_stated()', 'stated_pruning()',
			'quoted(TEXT)', 'instant(BIGINT)', 'sum_of(BIGINT, TEXT)', 'canonical(JSON, INT)', 'is_sealed(TEXT, TEXT)', 'entry_data(BYTEA, TEXT)', 'task_stated()', 'check_stated()', 'forecast_stated()', 'entry_stands()',
			'entry_follows(BIGINT, BYTEA, TEXT, BIGINT, TEXT, TEXT, BYTEA)', 'move_hold(TEXT, TEXT, BOOLEAN, BIGINT)', 'run_opened()'] LOOP
		EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp SET standard_conforming_strings = on', f, current_schema());
		-- Triggers fire without it: who has it may put one on a table of their own.
		EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
	END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- A ledger is not taken back.
SELECT 1 / 0;
