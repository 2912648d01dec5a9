package activities

import (
	"context"
	"crypto/rand"
	"runtime"
	"sync"

	"chimera.ai/engine/contract"
)

// predict makes the predictions that the decision on an action needs, and returns the salt of the action for
// which they are: the one of what people were asked, else a new one. They may take most of a second, for
// which no transaction, and with SQLite no other user of the database, has to wait.
func (g *Guardian) predict(ctx context.Context, judge Judge, approved *approved, a *Action) ([]byte, error) {
	salt := make([]byte, 16)
	if approved != nil && len(approved.salt) == len(salt) {
		copy(salt, approved.salt)
	} else {
		_, _ = rand.Read(salt) // it does not fail: crypto/rand ends the process instead
	}
	judges := []Judge{judge}
	if approved != nil && approved.then != nil {
		judges = append(judges, approved.then)
	}
	for _, j := range judges {
		if !j.Predicts(a.Node.Activity()) {
			continue
		}
		leave, err := g.turns.take(ctx)
		if err != nil {
			return nil, contract.Errorf(contract.StoreUnavailable, "the guardian has more predictions to make than it could in time, and goes on with them: %w", err)
		}
		func() {
			defer leave()
			j.Predict(a, salt)
		}()
	}
	return salt, nil
}

// turns lets as many predictions be made at once as there are processors, first come, first served: of many at
// once none would be made in time. The zero value is ready to use.
type turns struct {
	once sync.Once
	free chan struct{}
}

// take waits for a turn, which the caller ends.
func (t *turns) take(ctx context.Context) (leave func(), err error) {
	t.once.Do(func() { t.free = make(chan struct{}, runtime.GOMAXPROCS(0)) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case t.free <- struct{}{}:
		return func() { <-t.free }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
