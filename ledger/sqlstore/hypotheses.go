package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"chimera.ai/engine/ledger"
)

// A chain of hypotheses is locked after all others that a transaction locks: a decision holds it for
// no longer than it takes to state what was predicted.

const selectHypothesis = `SELECT hypothesis_id, agent_id, description, inputs, prediction, risk_score, created_at, state, observed, measured, tool_id, subject_key, sealed
	FROM causal_hypothesis`

// forecast is a row of causal_hypothesis.
type forecast struct {
	ledger.Hypothesis
	measured int
	// subject names the key with which sealed and observed are sealed, or is "".
	subject, sealed string
}

func scanForecast(scan func(...any) error) (f forecast, err error) {
	var inputs, prediction string
	var risk, observed, subject, sealed sql.NullString
	var at int64
	err = scan(&f.HypothesisID, &f.AgentID, &f.Description, &inputs, &prediction, &risk, &at, &f.State, &observed, &f.measured, &f.ToolID, &subject, &sealed)
	f.Inputs, f.Prediction, f.RiskScore, f.CreatedAt = json.RawMessage(inputs), json.RawMessage(prediction), json.Number(risk.String), instant(at)
	f.subject, f.sealed = subject.String, sealed.String
	if observed.Valid {
		f.Observed = json.RawMessage(observed.String)
	}
	return f, err
}

// openForecast opens what is sealed of a row. Its error is sql.ErrNoRows if the person was erased.
func openForecast(ctx context.Context, o *opener, f forecast) (ledger.Hypothesis, error) {
	h := f.Hypothesis
	if f.subject == "" {
		return h, nil
	}
	whole, err := decode[ledger.Hypothesis](ctx, o, f.sealed)
	if err != nil {
		return h, err
	}
	h.Description, h.Inputs, h.Prediction, h.RiskScore = whole.Description, whole.Inputs, whole.Prediction, whole.RiskScore
	if h.Observed != nil {
		h.Observed, err = o.openBytes(ctx, h.Observed)
	}
	return h, err
}

// fraction formats a number between 0 and 1 without an exponent, as databases do.
func fraction(n json.Number) (json.Number, error) {
	if len(n) <= 40 && json.Valid([]byte(n)) {
		// A JSON number of that length, or no number at all.
		if f, err := n.Float64(); err == nil && f >= 0 && f <= 1 {
			if i := strings.IndexAny(string(n), "eE"); i < 0 || len(strings.TrimLeft(string(n[i+1:]), "+-0")) <= 2 {
				if r, ok := new(big.Rat).SetString(string(n)); ok && r.Sign() >= 0 && r.Cmp(big.NewRat(1, 1)) <= 0 {
					places, _ := r.FloatPrec()
					return json.Number(r.FloatString(places)), nil
				}
			}
		}
	}
	return "", fmt.Errorf("%w: a risk score of %.40q", ledger.ErrInvalid, string(n))
}

// StateHypothesis implements [ledger.Facts].
func (s *Store) StateHypothesis(ctx context.Context, h ledger.Hypothesis) error {
	return s.do(ctx, "state hypothesis "+h.HypothesisID, func(t *tx) error { return t.foresee(ctx, h, nil) })
}

// foresee states a hypothesis, sealed with a key if that is not nil. One that is there is found if it
// says the same.
func (t *tx) foresee(ctx context.Context, h ledger.Hypothesis, sealed *sealKey) (err error) {
	if h.HypothesisID == "" || len(h.HypothesisID) > maxHypothesis {
		return fmt.Errorf("%w: %.80q is no id of a hypothesis", ledger.ErrInvalid, h.HypothesisID)
	}
	if h.Inputs, err = canonical(h.Inputs); err != nil {
		return err
	}
	if h.Prediction, err = canonical(h.Prediction); err != nil {
		return err
	}
	if h.RiskScore, err = fraction(h.RiskScore); err != nil {
		return err
	}
	h.State, h.Observed = ledger.HypothesisOpen, nil
	chain := ledger.HypothesesChain(h.AgentID)
	fresh, err := t.add(ctx, chain, func() (bool, error) {
		f, err := scanForecast(t.row(ctx, selectHypothesis+" WHERE hypothesis_id = $1", h.HypothesisID).Scan)
		if err != nil {
			return false, err
		}
		f.Observed = nil // others write that
		have, err := openForecast(ctx, t.opener(), f)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil // it was erased
		}
		return have.AgentID == h.AgentID && have.ToolID == h.ToolID && have.Description == h.Description && have.RiskScore == h.RiskScore &&
			string(have.Inputs) == string(h.Inputs) && string(have.Prediction) == string(h.Prediction), err
	})
	if err != nil || !fresh {
		return err
	}
	h.CreatedAt = t.now
	description, inputs, prediction, risk, kept := h.Description, string(h.Inputs), string(h.Prediction), any(h.RiskScore.String()), any(nil)
	if sealed != nil {
		description, inputs, prediction, risk = "", "{}", "{}", nil
		if kept, err = sealed.keep(h, nil); err != nil {
			return err
		}
	}
	if _, err := t.exec(ctx, `INSERT INTO causal_hypothesis (hypothesis_id, agent_id, description, inputs, prediction, risk_score, created_at, state, tool_id, subject_key, sealed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, h.HypothesisID, h.AgentID, description, inputs, prediction, risk,
		millis(h.CreatedAt), string(h.State), h.ToolID, sealed.name(), kept); err != nil {
		return err
	}
	return t.stateSealed(ctx, sealed, ledger.Draft{Chain: chain, Key: key(ledger.HypothesisStated, h.HypothesisID), Kind: ledger.HypothesisStated, Agent: h.AgentID}, h)
}

// maxHypothesis bounds the id of a hypothesis: keys of entries are longer.
const maxHypothesis = maxText - 32

// stateSealed states a fact in a chain that is no run's, with a body that is sealed with the key of a
// run, if that is not nil.
func (t *tx) stateSealed(ctx context.Context, sealed *sealKey, d ledger.Draft, v any) error {
	was, known := t.keys[d.Chain]
	t.keys[d.Chain] = sealed
	defer func() {
		if t.keys[d.Chain] = was; !known {
			delete(t.keys, d.Chain)
		}
	}()
	_, err := t.state(ctx, d, v)
	return err
}

// ObserveHypothesis implements [ledger.Facts].
func (s *Store) ObserveHypothesis(ctx context.Context, id string, observed json.RawMessage) error {
	return s.do(ctx, "observe hypothesis "+id, func(t *tx) error {
		return t.observe(ctx, ledger.Observation{Hypothesis: id, Observed: observed})
	})
}

// observe records what was measured, as far as it is new.
func (t *tx) observe(ctx context.Context, o ledger.Observation) error {
	var agent string
	var subject sql.NullString
	if err := t.row(ctx, "SELECT agent_id, subject_key FROM causal_hypothesis WHERE hypothesis_id = $1", o.Hypothesis).Scan(&agent, &subject); err != nil {
		return err
	}
	// As a decision does, the key before the chain.
	var sealed *sealKey
	if subject.Valid {
		k, err := t.keyNamed(ctx, subject.String)
		if err != nil {
			return err
		}
		if k.gone {
			return sql.ErrNoRows
		}
		sealed = &k
	}
	chain := ledger.HypothesesChain(agent)
	if err := t.lock(ctx, chain); err != nil {
		return err
	}
	f, err := scanForecast(t.row(ctx, selectHypothesis+" WHERE hypothesis_id = $1", o.Hypothesis).Scan)
	if err != nil {
		return err
	}
	h, err := passing(t.Store, openForecast)(ctx, t.opener(), f)
	if err != nil {
		return err
	}
	next, fresh, count, err := h.Observe(o.Observed)
	if err != nil || fresh == nil {
		return err
	}
	// Whoever may write what is sealed may have counted more: the database would not take it then.
	if count <= f.measured {
		return fmt.Errorf("%w: hypothesis %.120q counts more KPIs than were observed", ledger.ErrInvalid, h.HypothesisID)
	}
	kept, err := sealed.keepText(string(next.Observed))
	if err != nil {
		return err
	}
	// The entry first: what it conflicts with leaves the row as it is.
	if err := t.stateSealed(ctx, sealed, ledger.Draft{Chain: chain, Key: key(ledger.HypothesisObserved, h.HypothesisID+"/"+strconv.Itoa(count)), Kind: ledger.HypothesisObserved, Agent: h.AgentID},
		ledger.ObservedData{HypothesisID: h.HypothesisID, Observed: fresh}); err != nil {
		return err
	}
	_, err = t.exec(ctx, "UPDATE causal_hypothesis SET observed = $2, state = $3, measured = $4 WHERE hypothesis_id = $1",
		h.HypothesisID, kept, string(next.State), count)
	return err
}

// Hypotheses implements [ledger.Facts].
func (s *Store) Hypotheses(ctx context.Context, f ledger.HypothesisFilter, page ledger.Page) ([]ledger.Hypothesis, error) {
	query, args := selectHypothesis+" WHERE TRUE", []any{}
	for _, x := range []struct {
		condition string
		value     any
		wanted    bool
	}{
		{"agent_id =", f.Agent, f.Agent != ""}, {"tool_id =", f.Tool, f.Tool != ""}, {"state =", string(f.State), f.State != ""},
		{"created_at >=", millis(f.Since), f.Since != ledger.Time{}},
	} {
		if x.wanted {
			args = append(args, x.value)
			query += fmt.Sprintf(" AND %s $%d", x.condition, len(args))
		}
	}
	limit, offset := limits(page)
	args = append(args, limit, offset)
	query += fmt.Sprintf(" ORDER BY serial LIMIT $%d OFFSET $%d", len(args)-1, len(args))
	return openAll(ctx, s, "list hypotheses", query, args, func(rows *sql.Rows) (forecast, error) { return scanForecast(rows.Scan) }, passing(s, openForecast))
}

// Hypothesis implements [ledger.Facts].
func (s *Store) Hypothesis(ctx context.Context, id string) (ledger.Hypothesis, error) {
	what := fmt.Sprintf("find hypothesis %.120q", id)
	f, err := scanForecast(func(into ...any) error {
		return s.one(ctx, what, selectHypothesis+" WHERE hypothesis_id = $1", []any{id}, into...)
	})
	if err != nil {
		return f.Hypothesis, err
	}
	h, err := openForecast(ctx, s.opener(), f)
	return h, s.explain(what, err)
}
