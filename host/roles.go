package host

import "slices"

// has reports whether a host has a role.
func (o Options) has(r Role) bool {
	return slices.Contains(o.Roles, r) || len(o.Roles) == 0 && slices.Contains(defaultRoles, r)
}

var defaultRoles = []Role{RoleEngine, RoleTools}

// compiles reports whether a host has a role that compiles plans.
func (o Options) compiles() bool {
	return o.has(RoleEngine) || o.has(RoleGuardian) || o.has(RoleEffects)
}

// Roles lists all roles.
func Roles() []Role { return []Role{RoleEngine, RoleTools, RoleGuardian, RoleEffects} }
