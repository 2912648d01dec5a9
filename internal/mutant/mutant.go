// Package mutant shows that the tests of a store find its faults: a store is
// broken on purpose, its tests run on it in a process of their own, and must
// fail.
//
// A store's tests open their stores on what [Wrap] gives where [Active] finds a
// mutation, and call [Run] in a test.
package mutant

import (
	"context"
	"database/sql/driver"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Mutation is a way in which a store is broken.
type Mutation struct {
	Name string
	// Replace are texts in the store's statements, and what stands there instead.
	Replace [][2]string
	// Execute are statements that the new database is changed by.
	Execute []string
	// Tests are the names of tests of which one must fail, as "-run" takes them.
	Tests string
}

// variable names the mutation in a child's environment.
const variable = "CHIMERA_TEST_MUTATION"

// Active gives the mutation that this process is to have, or nil.
func Active(list []Mutation) *Mutation {
	for i := range list {
		if list[i].Name == os.Getenv(variable) {
			return &list[i]
		}
	}
	return nil
}

// control changes nothing: the tests pass on it, so that what fails on others
// fails for what was changed.
const control = "none"

// attempts is how often the tests run until a fault that shows by chance shows.
const attempts = 5

var failed = regexp.MustCompile(`(?m)^\s+--- FAIL: (\S+)`)

// Run runs the tests of each mutation in a child with these variables, and fails
// where they pass. The mutations come with one that changes nothing, on which all
// the tests must pass, and which comes first; the others run in parallel.
func Run(t *testing.T, list []Mutation, env ...string) {
	var all []string
	for _, m := range list {
		all = append(all, m.Tests)
	}
	list = append([]Mutation{{Name: control, Tests: strings.Join(all, "|")}}, list...)
	for _, m := range list {
		t.Run(m.Name, func(t *testing.T) {
			if m.Name != control {
				t.Parallel()
			}
			for range attempts {
				out, err := child(t, m, env)
				if m.Name == control {
					require.NoError(t, err, "%s", out)
					return
				}
				if found := failed.FindAllStringSubmatch(out, -1); err != nil {
					require.NotEmpty(t, found, "it ended without a failing test: %s", out)
					var names []string
					for _, f := range found {
						names = append(names, f[1])
					}
					t.Logf("found by %s", strings.Join(names, ", "))
					return
				}
			}
			require.Fail(t, "no test has found it")
		})
	}
}

func child(t *testing.T, m Mutation, env []string) (string, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSuite$/^("+m.Tests+")$", "-test.count=1", "-test.timeout=20m", "-test.failfast",
		// What fails is not to be explained, nor kept.
		"-rapid.shrinktime=0s", "-rapid.nofailfile")
	cmd.Env = append(append(os.Environ(), variable+"="+m.Name), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Wrap gives a connector whose statements are changed; a nil mutation changes
// nothing.
func Wrap(c driver.Connector, m *Mutation) driver.Connector {
	if m == nil {
		return c
	}
	var pairs []string
	for _, r := range m.Replace {
		pairs = append(pairs, r[0], r[1])
	}
	return connector{c, strings.NewReplacer(pairs...)}
}

type connector struct {
	driver.Connector
	change *strings.Replacer
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn{inner, c.change}, nil
}

// conn has what database/sql asks of connections, as far as the one inside has.
type conn struct {
	driver.Conn
	change *strings.Replacer
}

func (c conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, c.change.Replace(query))
}

func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, c.change.Replace(query), args)
}

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, c.change.Replace(query), args)
}

func (c conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c conn) CheckNamedValue(v *driver.NamedValue) error {
	if inner, ok := c.Conn.(driver.NamedValueChecker); ok {
		return inner.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c conn) ResetSession(ctx context.Context) error {
	if inner, ok := c.Conn.(driver.SessionResetter); ok {
		return inner.ResetSession(ctx)
	}
	return nil
}

func (c conn) IsValid() bool {
	inner, ok := c.Conn.(driver.Validator)
	return !ok || inner.IsValid()
}

// Source is a connector to a driver that has none of its own.
type Source struct {
	To   driver.Driver
	Name string
}

// Connect implements [driver.Connector].
func (s Source) Connect(context.Context) (driver.Conn, error) { return s.To.Open(s.Name) }

// Driver implements [driver.Connector].
func (s Source) Driver() driver.Driver { return s.To }
