package host

import "chimera.ai/engine/activities"

// Predicts implements activities.Judge.
func (j judge) Predicts(operation string) bool {
	return j.gate.Predicts(operation) || j.shadow != nil && j.shadow.Predicts(operation)
}

// Predict implements activities.Judge.
func (j judge) Predict(a *activities.Action, salt []byte) {
	j.gate.Predict(actionOf(a), salt)
	if j.shadow != nil {
		j.shadow.Predict(actionOf(a), salt)
	}
}
