package skills

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"chimera.ai/engine/plan"
)

// name is what a provider or an operation may be called: it becomes half of an
// activity type, so it holds no slash, no space and no control character.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$`)

func (s Skill) check() error {
	switch {
	case !name.MatchString(s.Provider):
		return fmt.Errorf("provider %q is not a name", s.Provider)
	case !name.MatchString(s.Operation):
		return fmt.Errorf("operation %q is not a name", s.Operation)
	case s.Mode != plan.Deter && s.Mode != plan.Prob:
		return fmt.Errorf("mode is %q, not deter or prob", s.Mode)
	case s.Run == nil:
		return errors.New("there is no code")
	case !json.Valid(s.InputSchema):
		return errors.New("the input schema is not JSON")
	case !json.Valid(s.OutputSchema):
		return errors.New("the output schema is not JSON")
	}
	return nil
}
