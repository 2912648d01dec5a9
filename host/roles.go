package host

import "slices"

// has reports whether a host has a role.
func (o Options) has(r Role) bool { return len(o.Roles) == 0 || slices.Contains(o.Roles, r) }

// Roles lists all roles.
func Roles() []Role { return []Role{RoleEngine, RoleTools, RoleGuardian, RoleEffects} }
