package guardian

import "sync"

// maxMade bounds the predictions that a gate keeps: those of actions on which decisions are being made.
const maxMade = 256

// predictions are the last that were made, by the digests of their actions: one decision is made of several
// facts, and what it takes longest is done before a transaction is open. The zero value is empty.
type predictions struct {
	mu   sync.Mutex
	made map[string]*Simulation
	// order has the digests, of which next is the oldest once there are [maxMade].
	order []string
	next  int
}

// of returns the prediction for the action of a digest, which make makes if it is not there. What cannot be
// made is not remembered.
func (p *predictions) of(action string, make func() (*Simulation, error)) (*Simulation, error) {
	if s := p.get(action); s != nil {
		return s, nil
	}
	s, err := make()
	if err == nil && s != nil {
		p.put(action, s)
	}
	return s, err
}

func (p *predictions) get(action string) *Simulation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made[action]
}

func (p *predictions) put(action string, s *Simulation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil {
		p.made = map[string]*Simulation{}
	}
	if _, there := p.made[action]; there {
		return
	}
	p.made[action] = s
	if len(p.order) < maxMade {
		p.order = append(p.order, action)
		return
	}
	delete(p.made, p.order[p.next])
	p.order[p.next] = action
	p.next = (p.next + 1) % maxMade
}

// Predicts reports whether decisions about an operation need a prediction.
func (g *Gate) Predicts(operation string) bool { return g.models[operation] != nil }

// Predict makes the prediction that a decision on an action needs, if it needs one, so that [Gate.Decide] with
// the same salt has it at once. What cannot be predicted, Decide says.
func (g *Gate) Predict(a *Action, salt []byte) {
	d := &decision{gate: g, action: a, salt: salt}
	if d.understand() == nil {
		_, _ = d.foresee()
	}
}
