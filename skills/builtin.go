package skills

// Builtin lists the skills of the engine itself.
func Builtin() []Skill { return nil }
