package host_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/store"
)

// TestRightsOfAUser: a host whose database user lacks the rights of its roles does
// not start, and says which role the user needs.
func TestRightsOfAUser(t *testing.T) {
	url := pgtest.URL(t)
	o := store.Options{Driver: store.Postgres, URL: url, Origin: "example.com/log", InDatabase: true}
	_, err := store.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, store.Grant(t.Context(), o))
	all := []string{store.Roles.Engine, store.Roles.Guardian, store.Roles.Effects}
	require.NoError(t, store.CheckRights(t.Context(), o, all...), "the owner")
	for _, user := range append(all, store.Roles.Reader, store.Roles.Applier, store.Roles.Publisher, store.Roles.Tools) {
		as := o
		as.URL += "&role=" + user
		for _, needed := range all {
			err := store.CheckRights(t.Context(), as, needed)
			if user == needed {
				require.NoError(t, err, user)
				continue
			}
			var rights *store.RightsError
			require.ErrorAs(t, err, &rights, "%s as %s", user, needed)
			require.ErrorIs(t, err, ledger.ErrDenied)
			require.Equal(t, needed, rights.Role)
		}
		if user == store.Roles.Engine {
			continue
		}
		_, err := host.New(t.Context(), host.Options{Store: as, Dev: true, Roles: []host.Role{host.RoleEngine}})
		require.ErrorContains(t, err, store.Roles.Engine, user)
		require.True(t, host.Unusable(err), "%s: %v", user, err)
	}
}

// TestNoKeyring: a host without the keyring of its database does not start, since it would end
// each run about a person that meets it.
func TestNoKeyring(t *testing.T) {
	const origin = "example.com/log"
	o := store.Options{Driver: store.Postgres, URL: pgtest.URL(t), Origin: origin, InDatabase: true}
	ring := filepath.Join(t.TempDir(), "subjects")
	_, err := postgres.Migrate(t.Context(), postgres.Options{URL: o.URL, Origin: origin, Subjects: keyring.At(ring)})
	require.NoError(t, err)
	_, err = host.New(t.Context(), host.Options{Store: o, Dev: true, Roles: []host.Role{host.RoleEngine}})
	require.ErrorContains(t, err, "ledger.subjects")
	require.True(t, host.Unusable(err), err)
}
